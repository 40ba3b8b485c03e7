"""From a run to a page. The template escapes every text; figures and tables travel as JSON in which no tag can begin."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import plotly.io
from jinja2 import Environment
from plotly.offline import get_plotlyjs

from conecollapse._files import whole_file
from conecollapse.report.contents import contents


def write_report(path: Path, run: Any) -> None:
    """Write the page of ``run`` (see `conecollapse.runs`) to ``path``, whole or not at all."""
    write_page(path, contents(run), "page.html.j2")


def write_page(path: Path, found: Any, template: str) -> None:
    """Write a page with these contents, whole or not at all."""
    content = rendered(found, template)
    with whole_file(path) as part:
        part.write_text(content, encoding="utf-8")


def page(run: Any) -> str:
    """The page of ``run`` as text."""
    return rendered(contents(run), "page.html.j2")


def rendered(found: Any, template: str) -> str:
    """A template of this folder filled with contents, whose ``figures`` and ``tables`` have names."""
    folder = files("conecollapse.report")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    data = {
        "figures": {name: json.loads(figure.to_json()) for name, figure in found.figures.items()},
        "tables": {name: {"head": table.head, "rows": table.rows} for name, table in found.tables.items()},
        "themes": {name: _theme(f"plotly_{name}") for name in ("white", "dark")},
    }
    return environment.from_string((folder / template).read_text(encoding="utf-8")).render(
        found=found,
        css=(folder / "page.css").read_text(encoding="utf-8"),
        js=(folder / "page.js").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        data=script_json(data),
    )


def script_json(data: Any) -> str:
    r"""JSON that may stand inside a script element: without ``<``, ``>`` and ``&``.

    Examples
    --------
    >>> script_json({"gene": "</script>"})
    '{"gene":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _theme(name: str) -> dict[str, Any]:
    """plotly's template with a transparent background."""
    theme: dict[str, Any] = plotly.io.templates[name].to_plotly_json()
    clear = "rgba(0,0,0,0)"
    scene = {axis: {"backgroundcolor": clear} for axis in ("xaxis", "yaxis", "zaxis")}
    theme["layout"] |= {
        "paper_bgcolor": clear,
        "plot_bgcolor": clear,
        "font": theme["layout"].get("font", {}) | {"family": "system-ui, sans-serif"},
    }
    for axis, changes in scene.items():
        theme["layout"]["scene"][axis] |= changes
    return theme
