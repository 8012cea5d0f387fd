"""A story's file: blocks of commands with what they came to, and comments between them.

    # rules: 2, 3
    # What a comment says is nobody's command.

    append 1 a
    fetch 2 from 1
    ----
    1 appends a at 0
    2 gets 0:0/a from 1

A block ends at the first empty line, and its output with it. Comments stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

STORIES: Final = tuple(sorted(Path(__file__).parent.glob("*.txt")))

_RULES: Final = re.compile(r"^# rules: *([\d, ]+)$", re.MULTILINE)
_RULER: Final = "----"
_NOTHING: Final = "nothing happens"


def rules_of(text: str) -> tuple[int, ...]:
    """The protocol rules that a story says it shows. Raises SyntaxError for one that says nothing."""
    found = _RULES.search(text)
    if found is None:
        raise SyntaxError("a story says which rules it shows: # rules: 2, 3")
    return tuple(int(number) for number in found[1].split(","))


async def told(text: str, run: Callable[[str], Awaitable[Sequence[str]]]) -> str:
    """`text` with what every block comes to now instead of what stands there."""
    paragraphs = re.split(r"\n\n+", text.strip("\n"))
    return "\n\n".join([await _told_paragraph(paragraph, run) for paragraph in paragraphs]) + "\n"


async def _told_paragraph(paragraph: str, run: Callable[[str], Awaitable[Sequence[str]]]) -> str:
    above, ruler, _ = f"{paragraph}\n".partition(f"\n{_RULER}\n")
    lines = above.rstrip("\n").split("\n")
    commands = [line for line in lines if not line.startswith("#")]
    if not commands:
        return paragraph
    if not ruler:
        raise SyntaxError(f"there is no {_RULER} below {commands[-1]!r}")
    output = [line for command in commands for line in await run(command)]
    return "\n".join((*lines, _RULER, *(output or [_NOTHING])))
