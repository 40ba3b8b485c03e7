"""From a result to a page. The template escapes every text; figures and tables travel as JSON in
which no tag can begin.

Figures are drawn by plotly.js, in its bundle of flat figures, which is a third of all of it;
``plotly/LICENSE`` holds its licence (MIT).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from conecollapse._errors import InvalidInputError, optional
from conecollapse._files import whole_file
from conecollapse.report import clustering, novelty, programs, unmixing
from conecollapse.report.parts import Chart, Page, Table
from conecollapse.report.pictures import gradient

with optional("A report", "report"):
    from jinja2 import Environment
    from markupsafe import Markup

CONTENTS: dict[str, Callable[[Any], Page]] = {
    "cluster": clustering.contents,
    "unmix": unmixing.contents,
    "novelty": novelty.contents,
    "programs": programs.contents,
}


def write_report(path: Path, run: Any) -> None:
    """Write the page of ``run`` to ``path``, whole or not at all: of a clustering, an unmixing or
    a judgement."""
    content = page(run)
    with whole_file(path) as part:
        part.write_text(content, encoding="utf-8")


def page(run: Any) -> str:
    """The page of ``run`` (see `write_report`) as text."""
    kind = getattr(run, "kind", type(run).__name__)
    if kind not in CONTENTS:
        raise InvalidInputError(
            f"there is no report of {kind!r}; there is one of {', '.join(CONTENTS)}."
        )
    return rendered(CONTENTS[kind](run))


def rendered(found: Page) -> str:
    """The template filled with the contents of a page."""
    folder = files("conecollapse.report")
    template, css, js = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.html.j2", "page.css", "page.js")
    )
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["breakable"] = breakable
    data = {
        "charts": {
            part.name: _chart(part) for part in found.all_parts() if isinstance(part, Chart)
        },
        "tables": {
            part.name: {"head": part.head, "rows": part.rows}
            for part in found.all_parts()
            if isinstance(part, Table)
        },
    }
    return environment.from_string(template).render(
        found=found,
        css=css,
        js=js,
        gradient=gradient(),
        plotly=(folder / "plotly" / "plotly-cartesian.min.js").read_text(encoding="utf-8"),
        data=script_json(data),
    )


def breakable(name: str) -> Markup:
    """A file's name that may be broken after a dot, a dash, a slash or an underscore, and so is not
    broken inside a word.

    Examples
    --------
    >>> breakable("my_cells.csv")
    Markup('my_<wbr>cells.<wbr>csv')
    """
    return Markup("<wbr>").join(re.split(r"(?<=[._/\\-])(?=\w)", name))


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


def _chart(part: Chart) -> dict[str, Any]:
    """The figure as plotly.js takes it; the page has a template of its own."""
    figure: dict[str, Any] = json.loads(part.figure.to_json())
    figure["layout"].pop("template", None)
    return figure
