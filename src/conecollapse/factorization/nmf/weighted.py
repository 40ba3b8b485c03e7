"""Factorizations in which entries may be missing or have weights, samples may have weights, and
entries of H may be fixed.

*Weights of samples.* A method sees each sample times a power of its weight, the root for a squared
error, so that its loss counts as often as the weight says; samples of weight zero are encoded, but
do not take part.

*Fixed components.* The known ones are encoded first, and the others start from what these leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Stopping
from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, FloatArray
from conecollapse.factorization.initial_factors import automatic_start
from conecollapse.factorization.nmf.encoders import Divergence, LeastSquares, with_encodings
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.robust import Penalty, no_penalty, robust
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.factorization.nmf.shrinkage import choose_shrinkage
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.factorization.result import Factorization
from conecollapse.tables import MaskedTable, Table

# random draws for each start of a table with weights, whose optima differ more (chosen on two
# tables of air samples)
TRIALS = 4


@dataclass(frozen=True)
class Method:
    """An alternating method, ``run(X, W, H, tol=, max_iter=, callback=, fixed=)``, and what it
    minimises besides the squares."""

    run: Callable[..., Factorization]
    stopping: Stopping
    is_divergence: bool = False
    penalty: Penalty = no_penalty  # of W and H, added to the loss
    price: float = 0.0  # of the squared sum of each encoding

    def encoder(
        self, H: AnyArray, penalties: FloatArray, limit: float | None
    ) -> LeastSquares | Divergence:
        """The best encodings over H; ``penalties`` are those on contributions to missing
        entries."""
        shrinks = bool(penalties.any())
        if self.is_divergence:
            return Divergence(H, penalties if shrinks else None)
        shares = penalties * np.square(row_lengths(H))
        ridge = np.diag(shares) + self.price if shrinks or self.price else None
        return LeastSquares(H, ridge, limit)


@dataclass(frozen=True)
class Terms:
    """What else counts in a fit."""

    sample_weight: FloatArray | None = None
    fixed: Fixed | None = None
    shrinkage: Any = "auto"  # or a number
    limit: float | None = None  # of Huber's loss, over the unit of the table


@dataclass(frozen=True)
class Weighted:
    """The factors, with W for all samples, and how further samples are encoded."""

    result: Factorization
    encoder: LeastSquares | Divergence
    shrinkage: float = 0.0
    unseen: tuple[LeastSquares | Divergence, ...] = ()  # fitted without one fold of the entries
    seed: int = 0  # of these folds


def factorize_weighted(method: Method, X: Table, starts: Starts, terms: Terms) -> Weighted:
    """``X ~ W H`` by the method, the best of several starts."""
    s, r = terms.sample_weight, starts.r
    kept = X if s is None or s.all() else X.rows(np.flatnonzero(s))
    s = np.ones(kept.shape[0]) if s is None else s[s > 0]
    scale = s if method.is_divergence else np.sqrt(s)
    is_scaled = bool((s != 1).any())
    run = method.run if terms.fixed is None else partial(method.run, fixed=terms.fixed)
    chosen = _Shrinkage.of(run, kept.row_scaled(scale) if is_scaled else kept, r, terms, starts.rng)
    if terms.limit is not None:
        # residuals are those of scaled samples
        limit = terms.limit * (1.0 if terms.sample_weight is None else scale)
        run = partial(robust, run, limit=limit, penalty=method.penalty, **method.stopping)
    if is_scaled:
        run = _on_scaled_samples(run, chosen.table, scale)
    table = kept if is_scaled else chosen.table
    result = _best_run(run, table, replace(starts, sample_weight=s), terms.fixed)
    encoder = method.encoder(result.H, chosen.penalties, terms.limit)
    unseen = tuple(method.encoder(H, chosen.penalties, terms.limit) for H in chosen.unseen)
    result = _with_all_samples(result, X, encoder, terms)
    return Weighted(result, encoder, chosen.share, unseen, chosen.seed)


def _best_run(run: Any, X: Table, starts: Starts, fixed: Fixed | None) -> Factorization:
    """The best run of a method that keeps what is fixed."""
    if fixed is not None:
        if isinstance(starts.init, str):
            return _beside_fixed(run, X, starts, fixed)
        return best_of_starts(lambda X, W, H: run(X, W, fixed.put(H)), X, starts)
    starts = replace(starts, init=automatic_start(starts.init, X, starts.r))
    if isinstance(starts.init, str) and starts.init == "random" and not X.is_complete:
        starts = replace(starts, n_trials=TRIALS)
    return best_of_starts(run, X, starts)


@dataclass(frozen=True)
class _Shrinkage:
    """The table with the penalty on contributions to missing entries."""

    table: Table
    penalties: FloatArray  # (r,)
    share: float = 0.0
    unseen: tuple[AnyArray, ...] = ()
    seed: int = 0

    @classmethod
    def of(cls, run: Any, X: Table, r: int, terms: Terms, rng: np.random.Generator) -> _Shrinkage:
        if X.is_complete:
            return cls(X, np.zeros(r))
        table = cast(MaskedTable, X)
        share, seed = 0.0, 0
        unseen: tuple[AnyArray, ...] = ()
        if terms.shrinkage != "auto":
            share = float(terms.shrinkage)
        elif not table.has_uncertainties and terms.sample_weight is None:
            seed, fixed = int(rng.integers(2**31 - 1)), terms.fixed
            method = run if fixed is None else lambda X, W, H, **how: run(X, W, fixed.put(H), **how)
            share, components = choose_shrinkage(method, table, r, seed)
            unseen = tuple(components)
        shrunk = table.shrunk(share)
        return cls(shrunk, np.asarray(shrunk.penalties(r)), share, unseen, seed)


def _beside_fixed(run: Any, X: Table, starts: Starts, fixed: Fixed) -> Factorization:
    """The best run in which the components that are not fixed start from what the fixed ones
    leave."""
    r, k = starts.r, fixed.n_components
    known = fixed.values[:k]
    codes = solve(X.row_equations(known)) if k else np.zeros((X.shape[0], 0), X.dtype)
    if k == r:
        everything: Factorization = run(X, codes, known)
        return everything
    guess = X.completed()
    rest = guess.excess(codes, known) if k else guess
    rest = rest if rest.peak > 0 else guess

    def run_all(_: Table, W: AnyArray, H: AnyArray) -> Factorization:
        result: Factorization = run(X, np.hstack((codes, W)), fixed.put(np.vstack((known, H))))
        return result

    init = automatic_start(starts.init, X, r - k)
    return best_of_starts(run_all, rest, replace(starts, r=r - k, init=init))


def _with_all_samples(
    result: Factorization, X: Table, encoder: LeastSquares | Divergence, terms: Terms
) -> Factorization:
    """The factorization with encodings of all samples, and its squared error."""
    s = terms.sample_weight
    if s is None and terms.limit is None:
        if isinstance(encoder, LeastSquares):
            return with_encodings(result, X, encoder)
        if X.is_complete:
            return result
        return replace(result, error=X.row_equations(result.H).error(X.squared_norm, result.W))
    W = encoder(X)
    scale = np.ones(X.shape[0]) if s is None else np.sqrt(s)
    scaled = X if s is None else X.row_scaled(scale)
    norm2 = scaled.squared_norm
    error = scaled.row_equations(result.H).error(norm2, W * scale[:, None])
    return replace(result, W=W, error=error, norm2=norm2)


def _on_scaled_samples(run: Any, scaled: Table, scale: FloatArray) -> Any:
    """The method on samples times these numbers, from a start and to factors of the samples as they
    are."""

    def on_scaled(_: Table, W: AnyArray, H: AnyArray, **how: Any) -> Factorization:
        in_scale = scale[:, None].astype(W.dtype)
        result: Factorization = run(scaled, W * in_scale, H, **how)
        return replace(result, W=result.W / in_scale)

    return on_scaled


def check_shrinkage(shrinkage: Any) -> None:
    """Refuse what is neither "auto" nor a share."""
    is_number = isinstance(shrinkage, (int, float, np.number)) and not isinstance(shrinkage, bool)
    if shrinkage != "auto" and not (is_number and bool(0 <= shrinkage < np.inf)):
        raise InvalidInputError(
            f'shrinkage must be "auto" or a finite number >= 0; got {shrinkage!r}.'
        )
