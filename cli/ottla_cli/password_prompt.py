"""Gets a new password for a command: from a prompt, standard input or a file.

No option takes the password itself: the list of processes and the history of the shell would show it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.client.security.passwords import MOST_BYTES, password_in, password_in_file
from ottla.errors import config_error
from ottla_core.security.secret import Secret

FromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input, which has it on one line.")
]
FromFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="Read the password from a file that only its owner can read."),
]


def new_password(user: str, *, from_stdin: bool, from_file: Path | None) -> Secret:
    """Return the password that the user types twice, or that is in standard input or a file. Raises ConfigError."""
    if from_stdin and from_file is not None:
        raise config_error("--password-stdin and --password-file can't be combined", hint="pass only one of them")
    if from_file is not None:
        return password_in_file("--password-file", str(from_file))
    if from_stdin:
        return password_in(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input")
    if not sys.stdin.isatty():
        raise config_error(
            "can't prompt for a password without a terminal",
            hint="pass --password-stdin, or name a file with --password-file",
        )
    return Secret(
        typer.prompt(f"New password of {user}", hide_input=True, confirmation_prompt="Repeat the password", err=True)
    )
