"""The numbers in the documentation are drawn from records, and each record says which command
printed it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.records import BLOCK, COMMANDS, PAGES, draw
from benchmarks.summaries import RESULTS, read_record, rows_of

pytestmark = pytest.mark.own

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_its_records_give(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert draw(text) == text, "run python -m benchmarks.records"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_record_begins_with_a_command_that_exists(name):
    record = read_record(name)
    assert record.command == COMMANDS[name]
    assert (ROOT / record.command.split()[1]).is_file()
    assert record.printed


def test_every_record_is_drawn_somewhere_and_known():
    assert {path.stem for path in RESULTS.glob("*.txt")} == set(COMMANDS)
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in COMMANDS if f"results/{name}.txt" not in pages] == []


def test_a_page_without_its_numbers_gets_them_again():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    empty = BLOCK.sub(lambda block: f"{block[1]}{block[3]}", text)
    assert len(empty) < len(text)
    assert draw(empty) == text


def test_the_rows_of_a_table_are_found_without_its_means():
    printed = "2 threads\n\n| set | a | b |\n| --- | --- | --- |\n| x | 1 | 2 |\n| mean | 1 | 2 |\n"
    assert rows_of(printed) == {"x": {"a": "1", "b": "2"}}


def test_numbers_that_a_page_draws_are_not_typed_into_the_readme():
    """Outside of what is drawn and of code, the README has no number with a decimal point."""
    text = BLOCK.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    text = text.replace("Python 3.11", "")
    assert re.findall(r"\d+\.\d+", text) == []
