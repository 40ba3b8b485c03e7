"""The directive ``shown``: code on a page that is run when the site is built, with what it prints
and the figures it shows.

Code that reads a set from the folder ``CONECOLLAPSE_DATA`` has the options ``needs`` (the set) and
``kept`` (a name). Where the set is missing, the page has the result that docs/kept holds under that
name. `CONECOLLAPSE_KEEP=yes make docs` writes these results, where the sets are. A result that is
kept of other code is an error, and so is one that prints something else where the set is there.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stdout
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, NamedTuple

import figures
import plotly.graph_objects as go
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

DATA = "CONECOLLAPSE_DATA"
KEEP = "CONECOLLAPSE_KEEP"
# other code reads the copies that packages carry, so that its pages are the same everywhere
folder = os.environ.pop(DATA, None)


class Result(NamedTuple):
    """What a block of code gave."""

    printed: str
    figures: list[go.Figure]


class Shown(SphinxDirective):
    """A block of code and its result. The blocks of a page share their names. With ``only-figure``
    the page has the figures alone."""

    has_content = True
    option_spec: ClassVar = {
        "only-figure": directives.flag,
        "needs": directives.unchanged_required,
        "kept": directives.unchanged_required,
    }

    def run(self):
        code = "\n".join(self.content)
        result = self.with_data(code) if "needs" in self.options else self.execute(code)
        drawn = [nodes.raw("", figures.markup(figure), format="html") for figure in result.figures]
        if "only-figure" in self.options:
            return drawn
        printed = (
            [nodes.literal_block(result.printed, result.printed, language="text")]
            if result.printed
            else []
        )
        return [nodes.literal_block(code, code, language="python"), *printed, *drawn]

    def execute(self, code):
        """Run the code."""
        figures.take()
        with redirect_stdout(io.StringIO()) as printed:
            exec(
                compile(code, self.env.doc2path(self.env.docname), "exec"),
                self.env.temp_data.setdefault("shown", {}),
            )
        result = Result(printed.getvalue().rstrip("\n"), figures.take())
        if not result.printed and not result.figures:
            raise self.error("this block shows nothing; end it with print(...) or figure.show().")
        return result

    def with_data(self, code):
        """Run the code where its set is, and compare with what is kept; otherwise take what is
        kept."""
        file = Path(self.env.srcdir) / "kept" / f"{self.options['kept']}.json"
        self.env.note_dependency(str(file))
        stamp = sha256(code.encode()).hexdigest()
        result = None
        if folder is not None and (Path(folder) / f"{self.options['needs']}.npz").is_file():
            os.environ[DATA] = folder
            try:
                result = self.execute(code)
            finally:
                del os.environ[DATA]
            if os.environ.get(KEEP):
                drawn = [json.loads(figure.to_json()) for figure in result.figures]
                file.write_text(
                    json.dumps({"code": stamp, "printed": result.printed, "figures": drawn}) + "\n",
                    encoding="utf-8",
                )
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["code"] != stamp or (result is not None and result.printed != kept["printed"]):
            raise self.error(
                f"{file.name} is not the result of this block; `{KEEP}=yes make docs`, with {DATA},"
                " renews it."
            )
        return result or Result(kept["printed"], [go.Figure(figure) for figure in kept["figures"]])


def setup(app):
    app.add_directive("shown", Shown)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
