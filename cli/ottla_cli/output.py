"""How data is written: a table for eyes, JSON for programs, names for the shell.

`-o json` is one object, {"kind": "topics/v1", "items": [...]}; what a kind's items hold only grows until its number
changes. jsonl is the items alone, one a line. A listing comes as an iterable and is written as it comes, except as a
table. Nothing of Rich is imported for anything but a table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from ottla_cli.json_text import encode_json
from ottla_cli.settings import Form
from ottla_cli.terminal import put
from ottla_core.text.printable import printable

if TYPE_CHECKING:
    from rich.table import Table

Item = Mapping[str, Any]

_WIDE: Final = 100_000  # columns of a table that no terminal bounds
_WHOLE: Final = 24  # characters of a name that is not broken: the headers of others are, where it is narrow


@dataclass(frozen=True, slots=True)
class Listing:
    """Items of one kind. `columns` are the keys that a table shows, `name` is the key that `-o name` writes."""

    kind: str
    items: Iterable[Item]
    columns: Sequence[str] = ()
    name: str = "name"


def form_for(form: Form | None, stream: IO[str]) -> Form:
    """Return the form of `-o`; by default a table on a terminal, and jsonl for a program."""
    return form or ("table" if stream.isatty() else "jsonl")


def write(listing: Listing, form: Form | None) -> None:
    """Write to standard output."""
    match form_for(form, sys.stdout):
        case "table":
            write_table(listing)
        case "json":
            write_json(listing)
        case "jsonl":
            for item in listing.items:
                print(encode_json(item))
        case "name":
            for item in listing.items:
                put(str(item[listing.name]))


def write_json(listing: Listing) -> None:
    """One object, item by item: a topic's records need not fit into memory."""
    print(f'{{"kind":{encode_json(listing.kind)},"items":[', end="")
    for number, item in enumerate(listing.items):
        print("," if number else "", encode_json(item), sep="\n" if number else "", end="")
    print("]}")


def write_table(listing: Listing, *, indent: int = 0) -> None:
    """Write a table without lines, as wide as it needs to be unless a terminal bounds it; numbers are to the right."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        console.print(table_of(listing), width=console.width - indent)
    for line in capture.get().splitlines():
        print(" " * indent + line.rstrip())


def table_of(listing: Listing) -> Table:
    """Return the table that `write_table` writes."""
    from rich.table import Table

    items = list(listing.items)
    table = Table(box=None, pad_edge=False, header_style="bold")
    rows = [[printable(_cell(item.get(column))) for column in listing.columns] for item in items]
    for number, column in enumerate(listing.columns):
        justify: Literal["left", "right"] = "right" if any(isinstance(i.get(column), int) for i in items) else "left"
        whole = number == 0 and all(len(row[0]) <= _WHOLE for row in rows)
        table.add_column(column.upper().replace("_", " "), justify=justify, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*row)
    return table


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value))
        case dict():
            return " ".join(f"{name}={part}" for name, part in value.items())
    return str(value)
