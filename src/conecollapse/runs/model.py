"""model.npz: what a fitted model needs to say where new samples belong, as plain arrays.

The records that a model is made of (`conecollapse.estimators._fitted.Fitted`) are written as a tree
in JSON, whose leaves are numbers, words and names of arrays. Reading makes only records of the
classes in `_classes`, from arrays that are no pickles.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, RunFolderError
from conecollapse._files import sha256_of
from conecollapse._types import AnyArray
from conecollapse.io.npy import load_npz
from conecollapse.runs.folder import MODEL
from conecollapse.tables import DiffusedTable, Table

FORM = "form"  # the array with the tree
# of a choice of view: only the fit needs the graph and its eigenvectors
FOR_THE_FIT = {"Choice": ("N", "places")}


def write_model(folder: Path, parts: dict[str, Any]) -> None:
    """Write ``parts``, each a record, an array or plain, to model.npz."""
    arrays: dict[str, AnyArray] = {}
    form = _packed(parts, arrays)
    arrays[FORM] = np.array(json.dumps(form))
    np.savez(folder / MODEL, **arrays)  # type: ignore[arg-type]


def model_facts(folder: Path) -> dict[str, Any] | None:
    """What run.json says of model.npz; None where there is none."""
    path = folder / MODEL
    if not path.is_file():
        return None
    return {"sha256": sha256_of(path), "bytes": path.stat().st_size}


def read_model(folder: Path, said: Any) -> dict[str, Any]:
    """The parts that `write_model` wrote, if the file is the one that run.json speaks of."""
    if model_facts(folder) != said:
        raise RunFolderError(
            f"{MODEL} in {str(folder)!r} is missing, or is not the file that was written with this"
            " run; make the run again."
        )
    try:
        arrays = load_npz(folder / MODEL)
        return dict(_unpacked(json.loads(str(arrays[FORM])), arrays))
    except (InvalidInputError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise RunFolderError(
            f"{MODEL} in {str(folder)!r} cannot be read; it is damaged or of another version."
        ) from error


@cache
def _classes() -> dict[str, type]:
    """The records that a model may be made of, by name."""
    from conecollapse.affinity import kinds, views
    from conecollapse.affinity.counts import CountView
    from conecollapse.estimators._fitted import Fitted
    from conecollapse.estimators._labels import Names
    from conecollapse.factorization.cones.graph_ccnmf import Placement
    from conecollapse.factorization.mixtures.constraints import ClosedLeastSquares
    from conecollapse.factorization.nmf.encoders import Divergence, LeastSquares, ScaledLeastSquares
    from conecollapse.factorization.orthogonal import encoders
    from conecollapse.factorization.orthogonal.clamped import Judgement
    from conecollapse.factorization.orthogonal.evidence import Linear
    from conecollapse.tables import CsrTable, DenseTable

    known = (
        *(Fitted, Names, Placement, Judgement, Linear, views.View, views.Choice, CountView),
        *(Divergence, LeastSquares, ScaledLeastSquares, ClosedLeastSquares),
        *(encoders.OneCluster, encoders.OverRays, encoders.OverGraph, encoders.LabelRule),
        *(kinds.Source, kinds._Neighbours, kinds._Diffused, kinds.KNN, kinds.Diffusion),
        *(CsrTable, DenseTable, DiffusedTable),
    )
    return {one.__name__: one for one in known}


def _packed(value: Any, arrays: dict[str, AnyArray]) -> Any:
    """``value`` as JSON; its arrays are added to ``arrays``."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return _packed_mapping(value, arrays)
    if isinstance(value, np.ndarray):
        name = f"array_{len(arrays)}"
        arrays[name] = value.astype(np.str_) if value.dtype == object else value
        return {"array": name}
    if sp.issparse(value):
        parts = [_packed(part, arrays) for part in (value.data, value.indices, value.indptr)]
        return {"csr": parts, "shape": list(value.shape)}
    inner = {key: _packed(one, arrays) for key, one in _arguments(value).items()}
    return {"record": type(value).__name__, "of": inner}


def _packed_mapping(value: dict[Any, Any], arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """A mapping of names, or of the bytes of samples to where they stand."""
    if value and all(isinstance(key, bytes) for key in value):
        keys = np.frombuffer(b"".join(value), np.uint8).reshape(len(value), -1)
        return {"keys": _packed(keys, arrays), "at": _packed(np.array([*value.values()]), arrays)}
    return {"names": {name: _packed(one, arrays) for name, one in value.items()}}


def _arguments(value: Any) -> dict[str, Any]:
    """What a record is made with again."""
    name = type(value).__name__
    if name not in _classes():
        raise InvalidInputError(f"a model with a {name} cannot be kept.")
    if isinstance(value, DiffusedTable):
        return {"N": value.N, "damping": value.damping, "dtype": str(value.dtype)}
    if isinstance(value, Table):
        return {"array": value.array}
    if not is_dataclass(value):
        return dict(value.get_params())
    left_out = FOR_THE_FIT.get(name, ())
    return {
        part.name: None if part.name in left_out else getattr(value, part.name)
        for part in fields(value)
    }


def _unpacked(form: Any, arrays: dict[str, AnyArray]) -> Any:
    """What `_packed` was given."""
    if not isinstance(form, dict):
        return form
    if "array" in form:
        return arrays[form["array"]]
    if "csr" in form:
        parts = tuple(_unpacked(part, arrays) for part in form["csr"])
        found = sp.csr_array(parts, shape=tuple(form["shape"]))
        found.check_format()
        return found
    if "keys" in form:
        keys, at = _unpacked(form["keys"], arrays), _unpacked(form["at"], arrays)
        return {key.tobytes(): int(i) for key, i in zip(keys, at, strict=True)}
    inner = form["names"] if "names" in form else form["of"]
    values = {name: _unpacked(one, arrays) for name, one in inner.items()}
    return values if "names" in form else _classes()[form["record"]](**values)
