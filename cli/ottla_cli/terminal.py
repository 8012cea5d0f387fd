"""Text for people, line by line: data goes to standard output, and messages go to standard error.

Anybody who may use the cluster chooses names, ids and error messages. So every line passes one filter, which escapes
the characters on which a terminal acts. It also escapes line ends in names, even in a pipe, because the next program
takes each line for one item. JSON and the output of `ottla consume -f` in a pipe contain the exact names.
"""

from __future__ import annotations

import sys
from typing import Final

from ottla_core.text.printable import printable

_CLEAR_SCREEN: Final = "\033[H\033[J"
"""The sequence that goes to the top of a terminal and clears it."""
_CLEAR_LINE: Final = "\r\033[K"


def put(line: str, *, flush: bool = False) -> None:
    """Write a line of data."""
    print(printable(line), flush=flush)


def say(text: str) -> None:
    """Write a message to the user; never data."""
    print(printable(text), file=sys.stderr, flush=True)


def put_progress(text: str) -> None:
    """Replace the last line on standard error, which has to be a terminal. An empty text removes the line."""
    print(_CLEAR_LINE, printable(text), sep="", end="", file=sys.stderr, flush=True)


def clear_screen() -> None:
    """Clear the screen, if standard output is a terminal."""
    if sys.stdout.isatty():
        print(_CLEAR_SCREEN, end="")
