"""Damaged files of every kind that is read: does each end in a table or in one sentence?

``python tests/damaged_files.py --number 5000 --seed 0`` writes good files, changes a few of their
bytes, cuts them, or fills a part of them with zeros, and reads each in a process of its own kind,
which may crash. It prints the numbers of crashes, of hangs, of errors that are no sentences of this
package, and the largest memory. ``--only h5ad`` keeps to readers with that in their name, and
``--keep FOLDER`` keeps the files that went wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import queue
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

# A file counts as a hang after so much processor time, or after ten times as much by the clock: a
# busy machine makes no reader hang.
SECONDS, TIMES = 60, 10
MB = 10**6
RNG = np.random.default_rng(0)
X = np.round(RNG.random((30, 8)) * (RNG.random((30, 8)) < 0.6) + 0.01, 3)
CUBE = X.reshape(5, 6, 8)
NAMES = [f"s{i}" for i in range(30)]
FRAME = pd.DataFrame(X, index=pd.Index(NAMES, name="id"), columns=[f"g{j}" for j in range(8)])
LABELS = [("a", "b", "c")[i % 3] for i in range(30)]


def save_h5ad(path, X, **options):
    import anndata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = anndata.AnnData(
            X,
            obs=pd.DataFrame({"kind": pd.Categorical(LABELS)}, index=NAMES),
            var=pd.DataFrame({"n": np.arange(8)}, index=list(FRAME.columns)),
            uns={"log1p": {"base": None}, "words": ["a", "b"]},
            obsm={"X_pca": RNG.random((30, 2))},
        )
        data.write_h5ad(path, **options)


def save_mat73(path, cube):
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        file["Y"] = cube.transpose(2, 1, 0)
        file.create_dataset("Z", data=cube[0], chunks=True, compression="gzip")


def save_envi(path, cube):
    from conecollapse.io.envi import write_envi

    write_envi(path, path.with_suffix(".img"), cube, [str(k) for k in range(8)])


def save_scene(path, cube):
    scene = {"Y": cube.transpose(2, 1, 0).reshape(8, -1), "nRow": 5, "nCol": 6}
    scipy.io.savemat(path, scene) if path.suffix == ".mat" else np.savez(path, **scene)


def gzipped(write, path):
    write(path.with_suffix(""))
    path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
    path.with_suffix("").unlink()


def save_cone(path, X):
    from conecollapse import Cone

    Cone.from_points(X.T).save(path)


# what is read, by which door, and how it is written
KINDS = {
    "table.npy": ("read_table", lambda path: np.save(path, X)),
    "blocks.npy": ("open_table", lambda path: np.save(path, np.asfortranarray(X))),
    "dense.npz": ("read_table", lambda path: np.savez_compressed(path, X=X, y=LABELS)),
    "csr.npz": ("read_table", lambda path: sp.save_npz(path, sp.csr_matrix(X))),
    "coo.npz": ("read_table", lambda path: sp.save_npz(path, sp.coo_matrix(X))),
    "table.csv": ("read_table", FRAME.to_csv),
    "table.tsv": ("read_table", lambda path: FRAME.to_csv(path, sep="\t")),
    "table.csv.gz": ("read_table", lambda path: gzipped(FRAME.to_csv, path)),
    "table.mtx": ("read_table", lambda path: scipy.io.mmwrite(path, sp.coo_array(X))),
    "blocks.mtx": ("open_table", lambda path: scipy.io.mmwrite(path, sp.coo_array(X))),
    "table.mtx.gz": (
        "read_table",
        lambda path: gzipped(lambda plain: scipy.io.mmwrite(plain, sp.coo_array(X)), path),
    ),
    "table.parquet": ("read_table", FRAME.to_parquet),
    "dense.h5ad": ("read_table", lambda path: save_h5ad(path, X)),
    "csr.h5ad": ("read_table", lambda path: save_h5ad(path, sp.csr_matrix(X), compression="gzip")),
    "csc.h5ad": ("open_table", lambda path: save_h5ad(path, sp.csc_matrix(X))),
    "obs.h5ad": ("known_classes", lambda path: save_h5ad(path, sp.csr_matrix(X))),
    "cube.npy": ("read_spectra", lambda path: np.save(path, CUBE)),
    "cube.mat": ("read_spectra", lambda path: scipy.io.savemat(path, {"Y": CUBE})),
    "packed.mat": (
        "read_spectra",
        lambda path: scipy.io.savemat(path, {"Y": CUBE}, do_compression=True),
    ),
    "new.mat": ("read_spectra", lambda path: save_mat73(path, CUBE)),
    "cube.hdr": ("read_spectra", lambda path: save_envi(path, CUBE)),
    "labels.npy": ("read_labels", lambda path: np.save(path, np.arange(30) % 3)),
    "labels.npz": ("read_labels", lambda path: np.savez(path, y=np.arange(30) % 3)),
    "labels.csv": ("read_labels", lambda path: path.write_text("\n".join(["label", *LABELS]))),
    "cone.npz": ("load_cone", lambda path: save_cone(path, X)),
}


def read(door, path):
    """Read a file by one of the doors, all of it."""
    from conecollapse import Cone
    from conecollapse.cli.cluster import known_classes
    from conecollapse.io import open_table, read_labels, read_spectra, read_table

    if door == "read_table":
        read_table(path)
    elif door == "open_table":
        table = open_table(path, block_size=7)
        for block in (*table.samples(), *table.features()):
            assert block.shape
    elif door == "read_labels":
        read_labels(path, None, 30)
    elif door == "read_spectra":
        read_spectra(path, clip=True)
    elif door == "known_classes":
        known_classes(path, SimpleNamespace(text_column=None), None, "kind")
    else:
        Cone.load(path)


def damaged(content, rng):
    """The bytes of a file with a few of them changed, a part cut or a part of zeros."""
    content = bytearray(content)
    way, at = rng.integers(6), int(rng.integers(len(content)))
    if way < 3:  # a few bytes
        for place in rng.integers(len(content), size=rng.integers(1, 9)):
            content[place] = rng.integers(256)
    elif way == 3:  # a number
        content[at : at + 8] = (int(rng.integers(2**62)) >> int(rng.integers(62))).to_bytes(
            8, "little"
        )
    elif way == 4:
        del content[at:]
    else:
        content[at : at + 64] = bytes(len(content[at : at + 64]))
    return bytes(content)


def work():
    """Read the files that stdin names, and say of each how it ended and what memory it took."""
    warnings.simplefilter("ignore")
    from conecollapse._errors import ConeCollapseError

    for line in sys.stdin:
        door, path = json.loads(line)
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # begin to measure the peak again
        before = status("VmRSS")
        try:
            read(door, Path(path))
            end = "read"
        except ConeCollapseError as error:
            end = "refused" if "\n" not in str(error) else f"raw: several lines: {error}"
        except Exception as error:
            end = f"raw: {type(error).__name__}: {error}"
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(json.dumps([end, status("VmHWM") - before, children]), flush=True)


def status(name):
    """Bytes that /proc/self/status gives for a name."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name))


class Worker:
    """The process that reads, started again when it ends."""

    def __init__(self):
        self.process = None

    def ask(self, door, path):
        """How a file ended: "crash", "hang" or what `work` says; and two numbers of bytes."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--work"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self.answers = queue.Queue()
            self.listener = threading.Thread(
                target=self.listen, args=(self.process, self.answers), daemon=True
            )
            self.listener.start()
        self.process.stdin.write(json.dumps([door, str(path)]) + "\n")
        self.process.stdin.flush()
        answer = self.wait_for_answer()
        if answer[0] in ("hang", "crash"):
            self.close()
        return answer

    def wait_for_answer(self):
        """What `work` says, or that it hangs."""
        before, end = self.processor_time(), time.monotonic() + TIMES * SECONDS
        while time.monotonic() < end and self.processor_time() - before < SECONDS:
            try:
                return self.answers.get(timeout=1)
            except queue.Empty:
                continue
        return ["hang", 0, 0]

    def processor_time(self):
        """Seconds that the process and its finished children have computed; 0 when it is gone."""
        try:
            with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def listen(process, answers):
        for line in process.stdout:
            answers.put(json.loads(line))
        answers.put(["crash", 0, 0])

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.listener.join()
            self.process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process = None


class Outcome(NamedTuple):
    """What became of all files."""

    ends: Counter  # of "read", "refused", "crash", "hang" and "raw"
    wrong: list  # sentences about those that went wrong
    memory: int  # bytes, the most that a file took in the process that read it
    helper: int  # bytes, the most that the look at an HDF5 file took in its process
    largest: str  # which file took that memory


def try_files(number, seed, only="", keep=None, tell=None):
    """Damage and read ``number`` files, of all kinds in turn."""
    kinds = [kind for kind in KINDS if only in kind]
    folder = Path(tempfile.mkdtemp(prefix="damaged-"))
    worker, ends, wrong, memory, helper, largest = Worker(), Counter(), [], 0, 0, ""
    try:
        good = {}
        for kind in kinds:
            KINDS[kind][1](folder / kind)
            good[kind] = (folder / kind).read_bytes()
            end = worker.ask(KINDS[kind][0], folder / kind)[0]
            assert end == "read", (kind, end)
        for i in range(number):
            kind, rng = kinds[i % len(kinds)], np.random.default_rng([seed, i])
            path = folder / kind
            path.write_bytes(damaged(good[kind], rng))
            end, taken, children = worker.ask(KINDS[kind][0], path)
            ends[end.split(":")[0]] += 1
            helper = max(helper, children)
            if taken > memory:
                memory, largest = taken, f"{kind}, number {i}"
            if end not in ("read", "refused"):
                wrong.append(f"{kind}, number {i}: {end}")
                if keep is not None:
                    shutil.copy(path, Path(keep) / f"{i}-{kind}")
            path.unlink()
            if tell is not None and i % 500 == 499:
                tell(f"{i + 1}: {dict(ends)}")
    finally:
        worker.close()
        shutil.rmtree(folder)
    return Outcome(ends, wrong, memory, helper, largest)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of the name of a kind of file")
    parser.add_argument("--keep", help="a folder for the files that went wrong")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work()
        return 0
    found = try_files(
        asked.number, asked.seed, asked.only, asked.keep, lambda text: print(text, flush=True)
    )
    print(*found.wrong, sep="\n")
    print(
        f"{asked.number} damaged files, seed {asked.seed}: {found.ends['crash']} crashes,"
        f" {found.ends['hang']} hangs, {found.ends['raw']} raw errors; {found.ends['read']} read,"
        f" {found.ends['refused']} refused; largest memory {found.memory / MB:.0f} MB"
        f" ({found.largest}), {found.helper / MB:.0f} MB in the process that looks at HDF5 files"
    )
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
