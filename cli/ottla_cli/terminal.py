"""Text for people, line by line: data goes to standard output, and messages go to standard error.

Names, ids and error messages come from anybody who may use the cluster. So every line passes one filter, which escapes
what a terminal acts on. A name with a line end stays on its line, also in a pipe, where each line is one item for the
next program. JSON has the exact names, and so has what `ottla consume -f` writes into a pipe.
"""

from __future__ import annotations

import sys
from typing import Final

from ottla_core.text.printable import printable

_CLEAR_SCREEN: Final = "\033[H\033[J"
"""Go to the top of the terminal, and clear it."""
_CLEAR_LINE: Final = "\r\033[K"


def put(line: str, *, flush: bool = False) -> None:
    """Write a line of data."""
    print(printable(line), flush=flush)


def say(text: str) -> None:
    """Write a message to the user; never data."""
    print(printable(text), file=sys.stderr, flush=True)


def put_progress(text: str) -> None:
    """Replace the last line on standard error, which has to be a terminal. An empty text leaves no line there."""
    print(_CLEAR_LINE, printable(text), sep="", end="", file=sys.stderr, flush=True)


def clear_screen() -> None:
    """Clear the screen, if standard output is a terminal."""
    if sys.stdout.isatty():
        print(_CLEAR_SCREEN, end="")
