"""Every factorization as a pure function: ``method(X, W, H, ...)`` takes a start and returns a
`Factorization`.

X is a checked `conecollapse.tables.Table`: the estimators are the public door.
"""

from conecollapse.factorization.anls import anls
from conecollapse.factorization.ccnmf import ConeFactorization, ccnmf, data_cone
from conecollapse.factorization.data import Factorization
from conecollapse.factorization.hals import hals
from conecollapse.factorization.inits import INITS, initialize
from conecollapse.factorization.mu import mu
from conecollapse.factorization.onmf import SOLVERS, orthogonality
from conecollapse.factorization.onmf.em import em
from conecollapse.factorization.onmf.multiplicative import multiplicative
from conecollapse.factorization.onmf.onp import onp_mf
from conecollapse.factorization.pnmf import pnmf
from conecollapse.factorization.restarts import best_of_starts

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
