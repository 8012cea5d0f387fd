"""Makes names of groups, ids of clients and error messages safe to show, because anybody may have chosen them."""

from __future__ import annotations

import re
from typing import Final

_ACTIVE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""The characters on which a terminal acts instead of showing them: control characters, separators of lines, and
characters that change the direction of writing. Lone surrogates can't be written at all. A tab misleads no more than
spaces do, so it is not among them."""


def printable(text: str) -> str:
    r"""Return the text on one line, with `\n`, `\x1b` or `\u202e` in place of a character on which a terminal acts."""
    return text if text.isprintable() else _ACTIVE.sub(_escaped, text)


def printable_json(text: str) -> str:
    """Return JSON of the same value with these characters escaped. Outside its strings, JSON has only line ends."""
    return text if text.isprintable() else _ACTIVE.sub(_json_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _json_escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
