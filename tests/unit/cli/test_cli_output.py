"""Tables for eyes, JSON for programs, names for the shell."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ottla_cli.output import Item, Listing, form_for, write, write_table

ITEMS: list[Item] = [
    {"name": "orders", "partitions": 12, "internal": False, "isr": [0, 1], "note": None},
    {"name": "größe", "partitions": 3, "internal": True, "isr": [], "note": "[bold]x"},
]
LISTING = Listing("topics/v1", ITEMS, ("name", "partitions", "internal", "isr", "note"))


def test_json_is_one_versioned_object(capsys: pytest.CaptureFixture[str]) -> None:
    write(LISTING, "json")
    assert json.loads(capsys.readouterr().out) == {"kind": "topics/v1", "items": ITEMS}
    write(Listing("topics/v1", []), "json")
    assert json.loads(capsys.readouterr().out) == {"kind": "topics/v1", "items": []}


def test_jsonl_is_an_item_a_line_and_the_default_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write(LISTING, None)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == ITEMS


def test_items_are_written_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def items() -> Iterator[Item]:
        for number in range(2):
            seen.append(capsys.readouterr().out)
            yield {"n": number}

    write(Listing("records/v1", items()), "jsonl")
    assert seen == ["", '{"n":0}\n']


def test_names_are_bare(capsys: pytest.CaptureFixture[str]) -> None:
    write(LISTING, "name")
    assert capsys.readouterr().out == "orders\ngröße\n"


def test_a_table_has_headings_words_for_values_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    write(LISTING, "table")
    heading, first, second = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert heading == ["NAME", "PARTITIONS", "INTERNAL", "ISR", "NOTE"]
    assert first == ["orders", "12", "no", "0,1", "-"]
    assert second == ["größe", "3", "yes", "[bold]x"]


def test_a_table_in_a_pipe_is_as_wide_as_it_needs_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(Listing("x/v1", [{"name": "n" * 500, "note": "m" * 500}], ("name", "note")))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].split() == ["n" * 500, "m" * 500]


class Terminal:
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_table_unless_told_otherwise() -> None:
    terminal = Terminal()
    assert form_for(None, terminal) == "table"  # type: ignore[arg-type]  # a stand-in
    assert form_for("jsonl", terminal) == "jsonl"  # type: ignore[arg-type]  # a stand-in


def test_a_table_shows_names_as_they_are_also_those_that_are_names_of_pictures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rich would show a disc in the place of :CD:, which fingerprints of certificates have."""
    write_table(Listing("x/v1", [{"name": "AB:CD:EF", "note": "[bold]"}], ("name", "note")))
    assert "AB:CD:EF" in (shown := capsys.readouterr().out)
    assert "[bold]" in shown
