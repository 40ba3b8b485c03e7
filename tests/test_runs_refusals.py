"""A run that cannot be written says why in the words of the system, and leaves nothing."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from conecollapse import RunFolderError
from conecollapse.io import read_table
from conecollapse.runs import cluster, rays, save, verify
from conecollapse.runs.folder import check_folder


@pytest.mark.parametrize("missing", [os.W_OK, os.X_OK])
def test_a_folder_that_may_not_be_written_or_entered_is_refused_before_any_work(
    missing, tmp_path, monkeypatch
):
    assert check_folder(tmp_path / "out") == tmp_path / "out"
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & missing)
    with pytest.raises(RunFolderError, match=f"no permission in '{tmp_path}'"):
        check_folder(tmp_path / "out")


def test_a_folder_in_which_no_file_can_be_made_is_refused_before_any_work(tmp_path, monkeypatch):
    def full(**_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    check_folder(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(
        RunFolderError, match=f"cannot write to .*: {os.strerror(errno.ENOSPC)}; name another"
    ):
        check_folder(tmp_path / "out")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), os.strerror(errno.ENOSPC)),
        (OSError("disk full"), "disk full"),
    ],
)
def test_the_reason_is_the_systems_without_its_number(error, reason, tmp_path, monkeypatch):
    run = rays(read_table(np.eye(4) + 1))

    def fails(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(np, "savez", fails)
    with pytest.raises(RunFolderError, match=rf": {reason}; nothing"):
        save(run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


OF_ANOTHER_KIND = r"has no 'A' of shape \(8, 2\) and finite values; it is damaged"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda A: A.astype(str), OF_ANOTHER_KIND),
        (lambda A: A.astype(np.int64), OF_ANOTHER_KIND),
        (lambda A: A.astype(complex), OF_ANOTHER_KIND),
        (lambda A: A[:, :0], r"A in factors.npz holds no numbers, or negative ones; it is damaged"),
    ],
)
def test_a_factor_that_holds_no_numbers_is_refused_as_damaged(change, message, tmp_path):
    X = np.kron(np.eye(2), np.ones((4, 3))) + 0.1
    save(cluster(read_table(X), 2), tmp_path / "out")
    with np.load(tmp_path / "out" / "factors.npz") as file:
        arrays = dict(file)
    A = change(arrays["A"])
    np.savez(
        tmp_path / "out" / "factors.npz",
        **(arrays | {"A": A, "shares": arrays["shares"][:, : A.shape[1]]}),
    )
    with pytest.raises(RunFolderError, match=message):
        verify(tmp_path / "out", X)
