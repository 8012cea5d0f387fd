"""A story's file: blocks of commands with what they came to, and comments between them.

    # rules: 2, 3
    # Comments go on to the end of the line, and belong to nobody.

    append 1 a
    fetch 2 from 1
    ----
    1 appends a at 0
    2 gets 0:0/a from 1

The output of a block ends at the first empty line. Whatever stands between blocks is kept as it is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STORIES: Final = tuple(sorted(Path(__file__).parent.glob("*.txt")))

_RULES: Final = re.compile(r"^# rules: *([\d, ]+)$", re.MULTILINE)
_RULER: Final = "----"


@dataclass(frozen=True, slots=True)
class Block:
    """`lines` are commands, and comments among them."""

    lines: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(line for line in self.lines if not line.startswith("#"))


def rules_of(text: str) -> tuple[int, ...]:
    """The protocol rules that a story says it shows."""
    found = _RULES.search(text)
    return tuple(int(number) for number in found[1].split(",")) if found else ()


async def told(text: str, run: Callable[[str], Awaitable[Sequence[str]]]) -> str:
    """`text` with what every block comes to now instead of what stands there."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\n+", text.strip("\n")):
        above, ruler, _ = f"{paragraph}\n".partition(f"\n{_RULER}\n")
        block = Block(tuple(above.strip("\n").split("\n")))
        if not ruler and block.commands:
            raise SyntaxError(f"no {_RULER} below {block.commands[0]!r}")
        if not ruler:
            parts.append(paragraph)
            continue
        output = [line for command in block.commands for line in await run(command)]
        parts.append("\n".join((*block.lines, _RULER, *(output or ["nothing"]))))
    return "\n\n".join(parts) + "\n"
