"""The file of a mirror that copies topics of one cluster to another one, `west`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TEXT: Final = """
[clusters]
{alias} = "{source}"
west = "{west}"

[[flows]]
source = "{alias}"
target = "west"
topics = ["{topics}"]
delivery = "{delivery}"
"""


def write_flow(file: Path, alias: str, source: str, west: str, topics: str, delivery: str = "at_least_once") -> None:
    """`source` and `west` are addresses, `alias` is how the source is called, `topics` a pattern."""
    file.write_text(_TEXT.format(alias=alias, source=source, west=west, topics=topics, delivery=delivery))
