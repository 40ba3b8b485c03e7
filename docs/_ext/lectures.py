"""The page of mathematics: in place of a line "modules of `package`" come the texts of its modules.

A module is shown if its text has more than one paragraph. Its heading is its name.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import conecollapse

LINE = re.compile(r"^modules of `([\w.]+)`$", re.MULTILINE)
SOURCES = Path(conecollapse.__file__).parents[1]


def modules_with_a_text(package):
    """The full names of the modules of a package that begin with more than one paragraph."""
    names = []
    for file in sorted((SOURCES / package.replace(".", "/")).rglob("*.py")):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        if "\n\n" in text:
            parts = file.relative_to(SOURCES).with_suffix("").parts
            names.append(".".join(part for part in parts if part != "__init__"))
    return names


def section(module):
    name = module.removeprefix("conecollapse.")
    return f"### {name}\n\n```{{eval-rst}}\n.. automodule:: {module}\n```\n"


def write_sections(app, docname, source):  # noqa: ARG001 - as Sphinx calls it
    if docname == "mathematics":
        source[0] = LINE.sub(
            lambda line: "\n".join(map(section, modules_with_a_text(line[1]))), source[0]
        )


def setup(app):
    app.connect("source-read", write_sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
