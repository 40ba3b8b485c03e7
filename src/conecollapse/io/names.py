"""Names as arrays of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray

LONGEST = 1000  # characters of a name; an array of text gives every name the room of the longest


def as_names(names: Iterable[Any], what: str) -> AnyArray:
    """``names`` as an array of str; ``what`` they name is for the message.

    Examples
    --------
    >>> as_names([1, "b"], "rows")
    array(['1', 'b'], dtype='<U1')
    """
    texts = [str(name) for name in names]
    for number, text in enumerate(texts, 1):
        if len(text) > LONGEST:
            raise InvalidInputError(
                f"name {number} of the {what} has {len(text)} characters ({text[:20]!r}...), more"
                f" than {LONGEST}; is it a name?"
            )
    return np.array(texts, dtype=np.str_)


def place(number: int, names: AnyArray | None) -> str:
    """A row or column for a message: its place, counted from 1, and its name if it has one.

    Examples
    --------
    >>> place(0, None), place(0, np.array(["TP53"]))
    ('1', "1 ('TP53')")
    """
    return str(number + 1) if names is None else f"{number + 1} ({str(names[number])!r})"
