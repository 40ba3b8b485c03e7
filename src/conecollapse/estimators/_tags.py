"""What scikit-learn is told about the estimators of non-negative tables."""

from __future__ import annotations

from typing import Any


class NonNegativeMixin:
    """Tables are not negative, dense or sparse; transformers keep the precision."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
