"""Formulas as MathML, which browsers draw themselves: docutils translates them, no script and no
font is loaded."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

SIZES = re.compile(r"\\[bB]igg?[lr]?(?![a-zA-Z])")  # MathML's brackets grow by themselves
logger = logging.getLogger(__name__)


def render(translator, node):
    """Write a formula and skip what is inside it."""
    is_block = isinstance(node, nodes.math_block)
    try:
        formula = tex2mathml(
            SIZES.sub("", node.astext()).replace(r"\dots", r"\ldots"), as_block=is_block
        )
    except MathError as error:
        logger.warning("formula %r cannot be MathML: %s", node.astext(), error, location=node)
        raise nodes.SkipNode from error
    translator.body.append(f'<div class="formula">{formula}</div>\n' if is_block else formula)
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer(
        "mathml", inline_renderers=(render, None), block_renderers=(render, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
