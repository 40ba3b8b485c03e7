"""The first call on a machine: each Python block of the README in a process of its own, with no
kernel compiled yet.

python benchmarks/bench_first_call.py [--repeats 1]

A block that uses names of an earlier block runs after it, and both are counted. Wall-clock and
processor time, imports included; on a machine that others use, the processor time says more.
"""

from __future__ import annotations

import argparse
import ast
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import machine, without_kernels

README = Path(__file__).parents[1] / "README.md"


def blocks() -> list[str]:
    """Each block with the earlier ones that it needs before it."""
    every = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    whole: list[str] = []
    for block in every:
        used, made = names(block)
        needed = next(
            (
                earlier
                for earlier in reversed(whole)
                if (used - made - set(dir(__builtins__))) & names(earlier)[1]
            ),
            "",
        )
        whole.append(needed + block)
    return whole


def names(code: str) -> tuple[set[str], set[str]]:
    """The names that a block uses, and those that it defines."""
    used, made = set(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else made).add(node.id)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).split(".")[0])
    return used, made


def first_call(code: str) -> tuple[float, float]:
    """Wall-clock and processor seconds of a process that finds no compiled kernel anywhere."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        environment = without_kernels(folder)
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment
        )
        wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1)
    repeats = parser.parse_args().repeats
    print(machine())
    for code in blocks():
        runs = [first_call(code) for _ in range(repeats)]
        wall, processor = (min(column) for column in zip(*runs, strict=True))
        first = next(line for line in code.splitlines() if line.strip())
        print(f"{wall:5.1f} s, {processor:5.1f} s of processor time: {first} ...", flush=True)


if __name__ == "__main__":
    main()
