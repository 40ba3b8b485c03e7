"""Every factorization as a pure function: ``method(X, W, H, ...)`` takes a start and returns a
`Factorization`.

X is a checked `conecollapse.tables.Table`: the estimators are the public door.
"""

from conecollapse.factorization.cones.ccnmf import ConeFactorization, ccnmf, data_cone
from conecollapse.factorization.initial_factors import INITS, initialize
from conecollapse.factorization.nmf.anls import anls
from conecollapse.factorization.nmf.hals import hals
from conecollapse.factorization.nmf.mu import mu
from conecollapse.factorization.nmf.pnmf import pnmf
from conecollapse.factorization.orthogonal import SOLVERS, orthogonality
from conecollapse.factorization.orthogonal.em import em
from conecollapse.factorization.orthogonal.multiplicative import multiplicative
from conecollapse.factorization.orthogonal.onp import onp_mf
from conecollapse.factorization.restarts import best_of_starts
from conecollapse.factorization.result import Factorization

__all__ = [
    "INITS",
    "SOLVERS",
    "ConeFactorization",
    "Factorization",
    "anls",
    "best_of_starts",
    "ccnmf",
    "data_cone",
    "em",
    "hals",
    "initialize",
    "mu",
    "multiplicative",
    "onp_mf",
    "orthogonality",
    "pnmf",
]
