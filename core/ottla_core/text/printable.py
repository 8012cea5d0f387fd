"""Text of others as people may see it: names of groups, ids of clients and error messages come from anybody."""

from __future__ import annotations

import re
from typing import Final

_ACTIVE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal acts on instead of showing it: control characters, the separators of lines, and what changes
the direction of writing. Halves of surrogates can't be written at all. A tab misleads no more than spaces do."""


def printable(text: str) -> str:
    r"""Return the text on one line, with `\n`, `\x1b` or `\u202e` in place of a character on which a terminal acts."""
    return text if text.isprintable() else _ACTIVE.sub(_escaped, text)


def printable_json(text: str) -> str:
    """Return JSON of the same value without such characters. JSON has none outside its strings, but line ends."""
    return text if text.isprintable() else _ACTIVE.sub(_json_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _json_escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
