"""`faults`: what is wrong with a page as a person sees it. The script says how each is found."""

from __future__ import annotations

from pathlib import Path

AUDIT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def faults(tab) -> list[str]:
    """What is wrong with the page as it is shown now."""
    tab.wait_for_function("document.fonts.status === 'loaded'")
    return tab.evaluate(AUDIT.partition("\n")[2])
