"""The documentation of modules, as `--help` shows it."""

from __future__ import annotations

from itertools import zip_longest


def table_of(documentation: str | None) -> str:
    """Leave out the first line of a module's documentation, and show its Markdown tables in columns."""
    paragraphs = (documentation or "").partition("\n\n")[2].strip().split("\n\n")
    return "\b\n" + "\n\n\b\n".join(_in_columns(text) if text.startswith("| ") else text for text in paragraphs)


def _in_columns(table: str) -> str:
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines() if line[1] != "-"]
    rows = [[cell.strip(" |") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
