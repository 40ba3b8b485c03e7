"""Names that a spreadsheet would run as formulas, written so that it shows them as text.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, also after
white space; a quote ``'`` before it makes it text. Names that begin with quotes before such a sign
get one more, so that `original` gives every name back as it was.
"""

from __future__ import annotations

SIGNS = "=+-@＝＋－＠"  # noqa: RUF001 - some spreadsheets take the wide signs for the plain ones
QUOTE = "'"


def harmless(text: str) -> str:
    """``text`` as it is safe in a cell of a spreadsheet.

    Examples
    --------
    >>> harmless("=1+1"), harmless("TP53"), original(harmless("=1+1"))
    ("'=1+1", 'TP53', '=1+1')
    """
    return QUOTE + text if _is_live(text) else text


def original(text: str) -> str:
    """The text before `harmless`."""
    return text[1:] if text.startswith(QUOTE) and _is_live(text) else text


def _is_live(text: str) -> bool:
    """Whether a sign, or a tab or the end of a line, comes first; quotes before it do not count."""
    rest = text.lstrip(QUOTE)
    return rest[:1] in ("\t", "\r", "\n") or rest.lstrip()[:1] in tuple(SIGNS)
