"""Sphinx: ``make docs`` builds the site in build/docs. It works offline: no page loads a script, a
style or a font from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import conecollapse

ROOT = Path(conecollapse.__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(ROOT)]

import figures

from benchmarks.paper.studies import draw

project = "conecollapse"
author = "the conecollapse developers"
project_copyright = author
release = version = conecollapse.__version__

extensions = [
    "figures",
    "lectures",
    "mathml",
    "myst_parser",
    "numpydoc",
    "shown",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "tables",
]
exclude_patterns = ["_ext", "examples"]
default_role = "py:obj"

html_theme = "furo"
html_title = f"conecollapse {release}"
html_static_path = ["_static", str(figures.PLOTLY_JS)]
html_css_files = ["site.css"]
# docutils' own translation: drawn by the browser, where MathJax would be fetched from a CDN
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say types, with shapes
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"  # code, not what it printed

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": ("figures",),
    "capture_repr": (),
    "within_subsection_order": "reading.Order",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e6,  # times say more about the machine than about the example
    "write_computation_times": False,
    "remove_config_comments": True,
    "first_notebook_cell": None,
    "abort_on_example_error": True,
}


def add_scoreboard(app, docname, source):  # noqa: ARG001 - as Sphinx calls it
    """The page of the scoreboard gets its table; each note below it gets its own line."""
    if docname == "results/scoreboard":
        text = draw("scoreboard", ROOT / "docs" / "results").replace("\n\\* ", "\n\n\\* ")
        source[0] += f"\n````{{container}} records\n{text}\n````\n"


def only_ours(app, kind, name, member, skip, options):  # noqa: ARG001 - as autodoc calls it
    """Leave out what estimators inherit from scikit-learn, which documents it."""
    return True if (getattr(member, "__module__", None) or "").startswith("sklearn.") else None


def setup(app):
    app.connect("autodoc-skip-member", only_ours)
    app.connect("source-read", add_scoreboard)
