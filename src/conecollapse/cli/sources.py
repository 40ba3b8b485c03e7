"""What ``conecollapse cluster`` takes from and gives back to ``.h5ad`` files: known classes in,
results out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError, RunFolderError
from conecollapse._types import AnyArray


def known_classes(
    file: Path, table: Any, labels: Path | None, column: str | None
) -> AnyArray | None:
    """The known class of each sample: from a file, from a column beside the texts or of ``obs``, or
    none."""
    from conecollapse.io import read_labels
    from conecollapse.io.annotated import obs_column, whole_h5ad
    from conecollapse.io.texts import read_column

    if labels is not None:
        return read_labels(labels, table.sample_names, table.n_samples)
    if column is None:
        return None
    if table.text_column is not None:
        return np.array(read_column(file, column).texts, dtype=np.str_)
    if file.suffix.lower() != ".h5ad":
        raise InvalidInputError(
            f"label_column={column!r} is for .h5ad files and beside text_column=...; name a file"
            " with --labels."
        )
    return obs_column(whole_h5ad(file), column, file.name)


def check_h5ad(path: Path, file: Path) -> None:
    """Refuse a place for the results before any work is done."""
    if path.suffix.lower() != ".h5ad":
        raise InvalidInputError(f"--write-h5ad takes the name of an .h5ad file; got {str(path)!r}.")
    if path.exists() and file.exists() and path.samefile(file):
        raise InvalidInputError(
            f"--write-h5ad would replace the data in {str(file)!r}; name another file."
        )
    if not path.absolute().parent.is_dir():
        raise RunFolderError(
            f"cannot write {str(path)!r}: there is no folder {str(path.absolute().parent)!r}."
        )


def write_results(run: Any, file: Path, path: Path) -> None:
    """The data with the results of ``run`` in ``obs``, ``obsm``, ``varm`` and ``uns``, as
    `conecollapse.scverse.cluster` writes them."""
    from conecollapse._files import whole_file
    from conecollapse.io.annotated import highly_variable, new_anndata, whole_h5ad
    from conecollapse.runs.preparing import chosen_features
    from conecollapse.scverse import write_clusters

    raw = run.table.raw or run.table
    is_h5ad = file.suffix.lower() == ".h5ad" and not file.is_dir()
    adata = whole_h5ad(file) if is_h5ad else new_anndata(raw.X, raw.samples, raw.features)
    write_clusters(
        adata,
        run.model,
        "conecollapse",
        chosen_features(highly_variable(adata), bool(run.table.preparation.get("features"))),
        parameters=dict(run.parameters) | {"layer": run.table.layer},
    )
    if run.target is not None and not is_h5ad:
        adata.obs["target"] = run.target
    with whole_file(path) as temporary:
        adata.write_h5ad(temporary)
