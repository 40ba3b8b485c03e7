"""Draws the badges of the README from what pyproject.toml says, so that they are true:
``python docs/badges.py``."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH, PAD, GREEN = 7, 6, "#2b7a4b"  # pixels of a letter and around a word


def facts() -> dict[str, tuple[str, str]]:
    """File name -> left and right text."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, tool = settings["project"], settings["tool"]
    return {
        "python": ("python", project["requires-python"].replace(">=", "≥ ")),
        "licence": ("licence", project["license"]),
        "types": ("types", "mypy strict" if tool["mypy"]["strict"] else "mypy"),
        "layers": ("imports", f"{len(tool['importlinter']['contracts'])} contracts"),
    }


def draw(left: str, right: str) -> str:
    """A badge as SVG."""
    a, b = (WIDTH * len(word) + 2 * PAD for word in (left, right))
    style = (
        'font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" fill="#fff"'
        ' text-anchor="middle"'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img"'
        f' aria-label="{escape(left)}: {escape(right)}"><rect width="{a + b}" height="20" rx="3"'
        f' fill="#444"/><path d="M{a} 0h{b - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{b - 3}z"'
        f' fill="{GREEN}"/><g {style}><text x="{a / 2}" y="14">{escape(left)}</text><text'
        f' x="{a + b / 2}" y="14">{escape(right)}</text></g></svg>\n'
    )


def main() -> None:
    for name, words in facts().items():
        (ROOT / "docs" / "figures" / f"badge-{name}.svg").write_text(draw(*words), encoding="utf-8")


if __name__ == "__main__":
    main()
