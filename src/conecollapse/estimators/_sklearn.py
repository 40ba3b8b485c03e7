"""What estimators inherit from scikit-learn, with types.

scikit-learn is not annotated. A class with a base of unknown type would accept every argument and
have every attribute, so a type checker sees the declarations below in place of the real classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from conecollapse._types import AnyArray, BoolArray

    class BaseEstimator:
        """Parameters, representations, and the record of features."""

        n_features_in_: int
        feature_names_in_: AnyArray

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def _repr_html_(self) -> str: ...
        def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]: ...
        def __sklearn_clone__(self) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

    Cooperative = BaseEstimator

    class TransformerMixin:
        """`transform` in the container that the user asks for."""

        def set_output(self, *, transform: Any = None) -> Self: ...

    class ClassNamePrefixFeaturesOutMixin:
        """Names of components."""

        def get_feature_names_out(self, input_features: Any = None) -> AnyArray: ...

    class OutlierMixin:
        """Detectors of outliers."""

    class SelectorMixin(TransformerMixin):
        """Selectors of features."""

        def get_support(self, indices: bool = False) -> BoolArray: ...
        def transform(self, X: Any) -> Any: ...
        def inverse_transform(self, X: Any) -> Any: ...
        def get_feature_names_out(self, input_features: Any = None) -> AnyArray: ...
else:
    from sklearn.base import (
        BaseEstimator,
        ClassNamePrefixFeaturesOutMixin,
        OutlierMixin,
        TransformerMixin,
    )
    from sklearn.feature_selection import SelectorMixin

    # scikit-learn's mixins must come before BaseEstimator among the bases of a class
    Cooperative = object

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "Cooperative",
    "OutlierMixin",
    "SelectorMixin",
    "TransformerMixin",
]
