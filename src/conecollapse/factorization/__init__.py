"""Every factorization as a pure function: ``method(X, W, H, ...)`` takes a start and returns a
`Factorization`. Each is imported when it is first asked for.

X is a checked `conecollapse.tables.Table`: the estimators are the public door.
"""

from conecollapse._lookup import on_demand

_HOMES = {
    "conecollapse.factorization.cones.ccnmf": ("ConeFactorization", "ccnmf", "data_cone"),
    "conecollapse.factorization.initial_factors": ("INITS", "initialize"),
    "conecollapse.factorization.nmf.anls": ("anls",),
    "conecollapse.factorization.nmf.hals": ("hals",),
    "conecollapse.factorization.nmf.mu": ("mu",),
    "conecollapse.factorization.nmf.pnmf": ("pnmf",),
    "conecollapse.factorization.orthogonal": ("SOLVERS", "orthogonality"),
    "conecollapse.factorization.orthogonal.em": ("em",),
    "conecollapse.factorization.orthogonal.multiplicative": ("multiplicative",),
    "conecollapse.factorization.orthogonal.onp": ("onp_mf",),
    "conecollapse.factorization.restarts": ("best_of_starts",),
    "conecollapse.factorization.result": ("Factorization",),
}

__getattr__ = on_demand(__name__, _HOMES)
