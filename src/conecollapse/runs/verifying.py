"""`verify`: does a folder of results still follow from the data?

The data is read again, and a run is put together from it and from what only the search can find
(the factor A, the components, the cone). Then all other files must say what this run would write,
so each number has one formula, in the writer, and no file is believed. Whether shares and
abundances are those of the nearest mixture is decided by the conditions of optimality
(`conecollapse.certificates.optimality`), and a cone by its certificate.

Names, counts and sizes must be equal. Numbers that are computed again are sums in which nothing
cancels, so they agree to rounding wherever they are computed, far within `PRECISION`. The
differences of nearly equal numbers are in `ROUNDED`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from conecollapse._errors import (
    CertificateError,
    InvalidInputError,
    RunFolderError,
    argument,
    messages,
    quoted,
)
from conecollapse._types import AnyArray, Points
from conecollapse.io import TableFile
from conecollapse.io.npy import load_npz
from conecollapse.runs.folder import (
    CERTIFICATE,
    COPIES,
    FACTORS,
    FACTS,
    FORMAT,
    MAPS_MAT,
    MODEL,
    REPORT,
)
from conecollapse.runs.model import model_facts
from conecollapse.runs.run import (
    KINDS,
    Run,
    Stored,
    all_arrays,
    checksum,
    facts_of,
    feature_hashes,
    kind_of,
    report_checksum,
)

if TYPE_CHECKING:
    from conecollapse.certificates import Verdict
    from conecollapse.geometry.cone import Cone

PRECISION = 1e-9  # relative
# what rounding leaves where a difference is zero, as a share of what is subtracted
CANCELLED = 1e-12
# the power in which it is a difference: an error is the root of one
ROUNDED = {"relative_error": 2, "orthogonality": 1, "residuals": 1, "distances": 2, "z_scores": 1}
DATED = 128  # bytes of a .mat file that say when it was written
SOURCE = "but the data and the other files of the run give"
# what no data and no other file of a run proves
UNCHECKED = {
    "times": ("created", "timings"),
    "versions": ("versions",),
    # other bytes with the same values are noted
    "where the data was": (
        "data.path",
        "data.absolute",
        "data.source",
        "data.why",
        "data.sha256",
    ),
}
# these are facts of a file; data in memory has none of them
OF_FILES = ("data.header", "data.names", "data.layer", "data.text_column", "data.words")
FORM = {
    "kind": tuple(KINDS),
    "data": {
        "features_in": ("rows", "columns"),
        "sha256": str,
        "n_samples": int,
        "n_features": int,
    },
    "preparation": {},
    "parameters": {},
    "results": {},
    "timings": {},
}


@dataclass(frozen=True)
class Verification:
    """What was checked when every check passed."""

    folder: str
    kind: str  # of the run
    data: str  # what was read
    n_samples: int
    n_features: int
    sentence: str  # what is proven
    verdict: Verdict | None  # on the cone; None where the run claims none
    # whether the file has the same bytes; if False, the bytes differ but the values match
    same_bytes: bool
    not_checked: tuple[str, ...]  # parts of run.json that nothing in the folder proves

    @property
    def notes(self) -> tuple[str, ...]:
        """What is noteworthy, and no failure."""
        return () if self.same_bytes else ("the bytes of the data file changed, but no value did",)

    def __str__(self) -> str:
        left = f"Not checked: {', '.join(self.not_checked)}."
        notes = (f"Note: {note}." for note in self.notes)
        return " ".join([f"verified: {self.sentence}", *notes, left])


def verify(
    folder: str | os.PathLike[str], data: Any = None, tol: float | None = None
) -> Verification:
    """Check a folder of results against the data, without any solver where results are proven.

    The data is read again and prepared as recorded. Every feature must have the recorded values,
    the certificate of the cone must hold where there is one, abundances and shares must satisfy the
    conditions of optimality, and every other number of the folder must be the one that follows from
    the data, the factors and the cone. The distances of a judgement of novelty are computed again.
    Times, versions, where the data was, and what only the search knows are not checked;
    ``not_checked`` lists them. A checksum tells whether they, or the report, were changed later.

    Parameters
    ----------
    folder : path
    data : anything that `read_table` takes, optional
        The file that the run names by default: first by its place relative to the folder, then by
        its absolute path.
    tol : float, optional
        What to judge the claims of the cone against; by default the tolerance that it states, which
        the result repeats.

    Returns
    -------
    Verification

    Raises
    ------
    CertificateError
        A check failed; the message names the feature or the sample.
    RunFolderError
        The folder is damaged, of another version, or its data is missing.
    """
    path = Path(folder)
    stored = read_run(path)
    said, kind = stored.facts, kind_of(stored.facts["kind"])
    source = find_data(path, said["data"], data)
    read = kind.read(stored, source)
    table: TableFile = getattr(read, "table", read)
    table = table.raw or table
    _check_values(stored, table)
    found = kind.verify(stored, read, tol)
    agree(FACTORS, stored.arrays, all_arrays(found.run))
    _agree_copies(stored, found.run)
    unchecked = UNCHECKED | dict(found.unchecked)
    places = chain(*unchecked.values(), () if isinstance(source, (str, Path)) else OF_FILES)
    agree(FACTS, said, facts_of(found.run, path), {*places, "report", "model", "checksum"})
    _check_checksums(stored)
    return Verification(
        folder=str(folder),
        kind=found.run.kind,
        data=table.source,
        n_samples=table.n_samples,
        n_features=table.n_features,
        sentence=found.sentence,
        verdict=found.verdict,
        same_bytes=not table.sha256 or table.sha256 == said["data"]["sha256"],
        not_checked=tuple(unchecked),
    )


def read_run(path: Path) -> Stored:
    """The files of a folder of results; each is whole and has the form of a run, or the error says
    which is damaged."""
    facts = _read_facts(path)
    if not (path / FACTORS).is_file():
        raise RunFolderError(f"{str(path)!r} has no {FACTORS}; it is incomplete.")
    try:
        arrays = load_npz(path / FACTORS)
    except InvalidInputError as error:
        raise RunFolderError(
            f"{FACTORS} in {str(path)!r} cannot be read; it is truncated or damaged."
        ) from error
    if not (path / CERTIFICATE).is_file():
        return Stored(path, facts, arrays, None)
    from conecollapse.geometry.cone import Cone

    return Stored(path, facts, arrays, Cone.load(path / CERTIFICATE))


def _read_facts(path: Path) -> dict[str, Any]:
    """The content of run.json, refused unless it is whole and of this version."""
    if not path.is_dir():
        raise RunFolderError(f"there is no folder {str(path)!r}.")
    try:
        facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFolderError(f"{str(path)!r} holds no run: it has no {FACTS}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(
            f"{FACTS} in {str(path)!r} cannot be read ({error}); it is truncated or damaged."
        ) from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if version != FORMAT:
        raise RunFolderError(
            f"{str(path)!r} holds a run of another version ({quoted(version)}, not {FORMAT!r}); use"
            " that version, or make the run again."
        )
    if not has_form(facts, FORM) or not has_form(facts, kind_of(facts["kind"]).form):
        raise RunFolderError(
            f"{FACTS} in {str(path)!r} is incomplete; it is damaged or was edited."
        )
    return facts  # type: ignore[no-any-return]


def has_form(value: Any, form: Any) -> bool:
    """Whether a value from JSON has a form: a mapping with forms by name, a list with the form of
    each entry, several forms of which one is enough, a type, or a value.

    Examples
    --------
    >>> has_form({"a": [1, 2], "b": None}, {"a": [int], "b": (None, str)}), has_form(True, int)
    (True, False)
    """
    if isinstance(form, Mapping):
        return isinstance(value, dict) and all(
            name in value and has_form(value[name], one) for name, one in form.items()
        )
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(entry, form[0]) for entry in value)
    if isinstance(form, tuple):
        return any(has_form(value, one) for one in form)
    return type(value) is form if isinstance(form, type) else value == form


def find_data(path: Path, said: Mapping[str, Any], data: Any) -> Any:
    """Where the data of the run in ``path`` is: ``data`` if that is given, else the file that
    run.json names."""
    if data is not None:
        return data
    relative, absolute = said.get("path"), said.get("absolute")
    places = [path / relative] if isinstance(relative, str) else []
    places += [Path(absolute)] if isinstance(absolute, str) else []
    for place in places:
        # False also for a name that no system could have
        if os.path.isfile(place) or os.path.isdir(place):
            return place
    remedy = f"pass {argument('data', ...)}"
    if not places:
        raise RunFolderError(f"the run was made from data in memory; {remedy} to verify it.")
    raise RunFolderError(
        f"the data of this run, {quoted(str(places[-1]))}, is not there any more; {remedy} to say"
        " where it is now."
    )


def _check_values(stored: Stored, table: TableFile) -> None:
    """Refuse data with another shape, other names or other values than the run was made from."""
    said, arrays = stored.facts["data"], stored.arrays
    n, m = said["n_samples"], said["n_features"]
    if (table.n_samples, table.n_features) != (n, m):
        raise CertificateError(
            f"the data has {table.n_samples} samples and {table.n_features} features, but the run"
            f" was made from {n} and {m}; it is other data."
        )
    needed = {"sample_names": ("U", (n,)), "feature_names": ("U", (m,)), "data_hashes": ("u", (m,))}
    stored.check_arrays(needed)
    for names, key, what in (
        (table.features, "feature_names", "feature"),
        (table.samples, "sample_names", "sample"),
    ):
        for i in np.flatnonzero(names != arrays[key])[:1]:
            raise CertificateError(
                f"the {what} {quoted(str(arrays[key][i]))} of the run is called"
                f" {quoted(str(names[i]))} in the data."
            )
    check_hashes(table, arrays["data_hashes"])


def check_hashes(table: TableFile, hashes: AnyArray) -> None:
    """Refuse a table with another value than it had when these hashes were made."""
    changed = np.flatnonzero(feature_hashes(table.X) != hashes)
    if len(changed):
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        name = quoted(str(table.features[changed[0]]))
        raise CertificateError(
            f"the feature {name}{more} does not have the values that the run was made from; the"
            " data changed."
        )


def verify_cone(cone: Cone, points: Points, names: Any, what: str, tol: float | None) -> Verdict:
    """`Cone.verify`, whose messages call the points by name: "feature 'TP53'" for "point 3"."""
    with messages(name=lambda i: f"{what} {quoted(str(names[i]))}"):
        return cone.verify(points, tol)


def agree(
    file: str, said: Any, expected: Any, unchecked: Collection[str] = (), place: str = ""
) -> None:
    """Refuse ``file`` where what it said differs from what is expected, but for the ``unchecked``
    places."""
    if isinstance(expected, list) and isinstance(said, list):
        said, expected = dict(enumerate(said)), dict(enumerate(expected))
    if not (isinstance(expected, Mapping) and isinstance(said, Mapping)):
        _agree_values(f"{file}: {place}", place, np.asarray(said), np.asarray(expected))
        return
    for name in [*expected, *(name for name in said if name not in expected)]:
        inner = f"{place}.{name}" if place else str(name)
        if inner in unchecked:
            continue
        if name not in said or name not in expected:
            has = "lacks" if name in expected else "has an entry"
            raise CertificateError(f"{file} {has} {quoted(inner)}; it was edited.")
        agree(file, said[name], expected[name], unchecked, inner)


def _agree_values(where: str, place: str, found: AnyArray, wanted: AnyArray) -> None:
    if (found.shape, found.dtype.kind) != (wanted.shape, wanted.dtype.kind):
        raise CertificateError(f"{where} is {_described(found)}, {SOURCE} {_described(wanted)}.")
    same = found == wanted
    if wanted.dtype.kind == "f":
        power = ROUNDED.get(place.rpartition(".")[2], 0)
        a, b = (np.sign(part) * np.abs(part) ** (power or 1) for part in (found, wanted))
        atol = CANCELLED if power else 0.0
        same = np.isclose(a, b, rtol=PRECISION, atol=atol, equal_nan=True)
    for at in np.argwhere(~np.atleast_1d(same))[:1]:
        index = tuple(at.tolist())[: wanted.ndim]
        raise CertificateError(
            f"{where}{list(index) or ''} is {_described(found[index])}, {SOURCE}"
            f" {_described(wanted[index])}."
        )


def _described(value: Any) -> str:
    is_one = np.ndim(value) == 0
    return quoted(value.item()) if is_one else f"an array of {value.dtype} and shape {value.shape}"


def _agree_copies(stored: Stored, run: Run) -> None:
    """Refuse a folder whose copies of its arrays differ from those that the run writes."""
    with TemporaryDirectory() as folder:
        run.write(Path(folder), stored.arrays)
        for name in sorted(COPIES):
            found, wanted = _lines(stored.path / name), _lines(Path(folder, name))
            if bool(found) != bool(wanted):
                has = "has no" if wanted else "is of a kind of run that has no"
                raise RunFolderError(
                    f"{str(stored.path)!r} {has} {name}; it is incomplete or was edited."
                )
            for at, (line, true) in enumerate(zip_longest(found, wanted, fillvalue=b""), 1):
                if line != true:
                    _refuse_line(name, at, line, true)


def _lines(file: Path) -> list[bytes]:
    """What is compared; nothing where there is no file."""
    content = file.read_bytes()[DATED if file.name == MAPS_MAT else 0 :] if file.is_file() else b""
    return content.splitlines() if file.suffix == ".csv" else [content] if content else []


def _refuse_line(name: str, at: int, line: bytes, true: bytes) -> None:
    if not name.endswith(".csv"):
        raise CertificateError(f"{name} does not hold the maps of {FACTORS}.")
    cells = zip_longest(line.split(b","), true.split(b","), fillvalue=b"")
    k, pair = next((k, pair) for k, pair in enumerate(cells, 1) if pair[0] != pair[1])
    said, other = (quoted(cell.decode("utf-8", "replace")) for cell in pair)
    raise CertificateError(f"{name}, line {at}, cell {k}, is {said}, {SOURCE} {other}.")


def _check_checksums(stored: Stored) -> None:
    """What cannot be computed again is at least what was written."""
    if report_checksum(stored.path) != stored.facts.get("report", ""):
        raise CertificateError(
            f"{REPORT} is missing, or is not the page that was written with this run."
        )
    if model_facts(stored.path) != stored.facts.get("model"):
        raise CertificateError(
            f"{MODEL} is missing, or is not the file that was written with this run."
        )
    if stored.facts.get("checksum") != checksum(stored.facts):
        raise CertificateError(
            f"{FACTS} was changed after it was written: its checksum is that of another content."
        )
