"""Which changes of the source are tried, and which are not.

Some changes mean the same in correct code, or only word a message, and are never made:

- sizes: whole numbers of at least 16 in assignments at module level (`is_size`). They bound memory,
  are limits for which the next number would do as well, or choose between ways to the same result;
- arguments that decide only about speed or checks: SPEED_AND_CHECKS;
- texts, annotations, decorators, ``__repr__``, and the choice between two texts of which one is an
  f-string.
"""

from __future__ import annotations

import ast
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

PACKAGE = Path("src/conecollapse")

COMPARISONS = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
BOUNDARIES = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
    ast.LShift: ("<<", ">>"),
}
# arguments that change no result of correct code
SPEED_AND_CHECKS = ("check_finite", "copy", "smallest", "stacklevel", "strict")
SIZE = 16  # from here on a whole number at module level is a size
SMALL, FAR = 1e-3, 1e6  # a tolerance is made this many times larger: twice as large is still one
NAMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "floor": "ceil"}
NAMES |= {other: name for name, other in NAMES.items()}


@dataclass(frozen=True)
class Mutant:
    """The bytes ``start:stop`` of a file replaced; ``place`` names it for ``--only``."""

    file: str  # below the package
    line: int
    start: int
    stop: int
    new: bytes
    number: int = 0  # among the mutants of its line

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}#{self.number}"

    @property
    def area(self) -> str:
        """The folder of the package."""
        return self.file.split("/")[0]

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new + source[self.stop :]

    def diff(self, source: bytes) -> str:
        """The lines it touches, before and after, in one line."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.stop)
        before, after = (
            source[first:last],
            source[first : self.start] + self.new + source[self.stop : last],
        )
        return " -> ".join(re.sub(r"\s+", " ", text.decode()).strip() for text in (before, after))


class Finder(ast.NodeVisitor):
    """Every change of one file, but for those that the text of this module leaves out."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Mutant] = []

    def mutants(self) -> list[Mutant]:
        self.visit(ast.parse(self.source))
        count: dict[int, int] = defaultdict(int)
        numbered = []
        for m in sorted(set(self.found), key=lambda m: (m.start, m.stop, m.new)):
            numbered.append(replace(m, number=count[m.line]))
            count[m.line] += 1
        return numbered

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def change(self, start: int, stop: int, new: str) -> None:
        self.found.append(
            Mutant(self.file, self.source.count(b"\n", 0, start) + 1, start, stop, new.encode())
        )

    def replace(self, node: ast.AST, new: str) -> None:
        self.change(*self.span(node), new)

    def operator(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Exchange the operator between two nodes."""
        start, stop = self.span(left)[1], self.span(right)[0]
        pattern = (
            rb"(?<!\w)" + re.escape(old.encode()).replace(rb"\ ", rb"\s+") + rb"(?!\w)"
            if old[0].isalpha()
            else re.escape(old.encode())
        )
        at = re.search(pattern, self.source[start:stop])
        if at:
            self.change(start + at.start(), start + at.end(), new)

    def text(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.source[start:stop].decode()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name == "__repr__":
            return
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text for readers."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass")
            self.visit(node.value)
        elif isinstance(node.value, (ast.Yield, ast.YieldFrom)):
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value:
            if not (isinstance(node.value, ast.Constant) and node.value.value in (None, False)):
                self.replace(node.value, "None")
            self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.replace(node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self.replace(node, "continue")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(node, "pass")
        if type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            self.operator(node.target, node.value, old, new)
        self.visit(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS and not is_text(node.left) and not is_text(node.right):
            self.operator(node.left, node.right, *OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.operator(left, right, old, new)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            self.operator(left, right, *COMPARISONS[type(op)])
            if type(op) in BOUNDARIES and (is_whole(left) or is_whole(right)):
                self.operator(left, right, *BOUNDARIES[type(op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.replace(node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        if isinstance(name, ast.Name) and name.id in NAMES:
            self.replace(name, NAMES[name.id])
        elif isinstance(name, ast.Attribute) and name.attr in NAMES:
            stop = self.span(name)[1]
            self.change(stop - len(name.attr), stop, NAMES[name.attr])
        self.visit(name)
        for argument in [
            *node.args,
            *(k.value for k in node.keywords if k.arg not in SPEED_AND_CHECKS),
        ]:
            self.visit(argument)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound, shift in ((node.lower, "+ 1"), (node.upper, "- 1")):
            if bound is not None and not isinstance(bound, (ast.Constant, ast.UnaryOp)):
                self.replace(bound, f"({self.text(bound)}) {shift}")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        branches = (node.body, node.orelse)
        if all(map(is_text, branches)) and any(
            isinstance(branch, ast.JoinedStr) for branch in branches
        ):
            return
        self.replace(node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While) -> None:
        if isinstance(node.test, (ast.Name, ast.Call, ast.Attribute)):
            self.replace(node.test, f"not {self.text(node.test)}")
        self.generic_visit(node)

    visit_While = visit_If

    def visit_Assign(self, node: ast.Assign) -> None:
        for value in node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]:
            if not (node.col_offset == 0 and is_size(value)):
                self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value))
        elif isinstance(value, int):
            self.replace(node, str(0 if value == 1 else value + 1))
        elif isinstance(value, float):
            self.replace(node, repr(value * (FAR if value < SMALL else 2) if value else 1.0))


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_size(node: ast.expr) -> bool:
    """Whether an expression is made of whole numbers alone, and its value at least SIZE: ``1024``,
    ``200 * 2**20``."""
    for part in ast.walk(node):
        if (
            isinstance(part, ast.expr)
            and not isinstance(part, ast.BinOp)
            and not (isinstance(part, ast.Constant) and type(part.value) is int)
        ):
            return False
    return eval(compile(ast.Expression(node), "size", "eval")) >= SIZE


def is_whole(node: ast.AST) -> bool:
    """Whether a side of a comparison is plainly a whole number: among floats, equality hardly ever
    decides."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "len"
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Attribute):
        return node.attr in ("size", "ndim", "nnz")
    return isinstance(node, ast.Constant) and type(node.value) is int


def all_mutants(tree: Path, areas: Iterable[str]) -> list[Mutant]:
    """Every mutant of these folders of the package."""
    package = tree / PACKAGE
    files = sorted(path for area in areas for path in (package / area).rglob("*.py"))
    return [
        m
        for path in files
        for m in Finder(path.relative_to(package).as_posix(), path.read_bytes()).mutants()
    ]


def drawn(mutants: list[Mutant], number: int, seed: int) -> list[Mutant]:
    """One mutant of each of so many lines."""
    lines = defaultdict(list)
    for m in mutants:
        lines[m.file, m.line].append(m)
    dice = random.Random(seed)
    return [
        dice.choice(lines[line]) for line in dice.sample(sorted(lines), min(number, len(lines)))
    ]
