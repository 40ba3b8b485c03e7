"""Tables of sentences on a phone: each row becomes a block, and each cell says what its column is
called.

A table of numbers keeps its columns and is scrolled inside its own box. A table with a cell of
`PROSE` characters or more gets the class ``prose``, and each of its cells the name of its column,
which site.css shows on narrow screens only.
"""

from __future__ import annotations

from docutils import nodes

PROSE = 40  # characters


def name_cells(app, doctree, docname):  # noqa: ARG001 - as Sphinx calls it
    if docname.startswith("results/"):  # numbers with their spread
        return
    for table in doctree.findall(nodes.table):
        body = next(table.findall(nodes.tbody), None)
        if (
            body is None
            or max((len(cell.astext()) for cell in body.findall(nodes.entry)), default=0) < PROSE
        ):
            continue
        table["classes"].append("prose")
        heading = next(table.findall(nodes.thead), None)
        names = (
            []
            if heading is None
            else [cell.astext() for cell in next(heading.findall(nodes.row)).findall(nodes.entry)]
        )
        for row in body.findall(nodes.row):
            for name, cell in list(zip(names, row.findall(nodes.entry), strict=False))[1:]:
                if name and cell.astext():
                    place = cell[0] if isinstance(cell[0], nodes.paragraph) else cell
                    place.insert(0, nodes.inline("", f"{name}: ", classes=["column-name"]))


def setup(app):
    app.connect("doctree-resolved", name_cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
