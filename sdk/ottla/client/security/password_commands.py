"""A command that prints a password, such as that of a password manager."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from threading import Thread
from typing import IO, Final

from ottla.client.security.passwords import MOST_BYTES, password_in
from ottla.errors import ConfigError, config_error
from ottla_core.security.secret import Secret

LIMIT_S: Final = 60.0
"""The time for the command. It may have to ask its user for a PIN."""
_HINT: Final = "run it in a shell; it has to print the password, and nothing else"


def printed_password(name: str, command: str) -> Secret:
    """Run the command without a shell, and return the password that it prints. Raises ConfigError.

    The command can read from the terminal, and its messages (standard error) go there. If the standard input is no
    terminal, it belongs to the program, and the command gets none of it.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise config_error(f"{name} can't be split into words: {error}", hint="check its quotes") from None
    if words and "=" in words[0]:
        # The word is not shown, because the variable may be a token.
        hint = "write sh -c '…' around the command"
        raise config_error(f"{name} begins with a variable, which only a shell understands", hint=hint)
    source = f"{name}: {words[0] if words else 'the command'}"
    over_at = time.monotonic() + LIMIT_S
    try:
        process = subprocess.Popen(words, stdin=_terminal(), stdout=subprocess.PIPE)
    except (OSError, ValueError, IndexError) as error:
        reason = getattr(error, "strerror", None) or "it is empty or has a NUL"
        raise config_error(f"{source} can't be run: {reason}", hint=_HINT) from None
    assert process.stdout is not None
    try:
        data = _read(process.stdout, LIMIT_S)
        if data is None:
            raise _late(source)
        if len(data) <= MOST_BYTES and (code := process.wait(max(0.0, over_at - time.monotonic()))):
            raise config_error(f"{source} failed with exit code {code}", hint=_HINT)
    except subprocess.TimeoutExpired:
        raise _late(source) from None
    finally:
        process.kill()  # it has no effect on a process that has ended
        process.wait()
    return password_in(data, f"the output of {source}")


def _terminal() -> int | None:
    """Return what the command reads: the terminal, or nothing if this program reads a file or a pipe."""
    return None if sys.stdin is not None and sys.stdin.isatty() else subprocess.DEVNULL


def _read(output: IO[bytes], limit_s: float) -> bytes | None:
    """Return what comes until the end, or the beginning of too much; None if that takes longer than the limit.

    It reads on a thread of its own: another process may keep the pipe open after the command has been killed.
    """
    data: list[bytes] = []

    def read() -> None:
        with output:
            data.append(output.read(MOST_BYTES + 1))

    reader = Thread(target=read, name="ottla-password-command", daemon=True)
    reader.start()
    reader.join(limit_s)
    return data[0] if data else None


def _late(source: str) -> ConfigError:
    return config_error(f"{source} did not finish within {LIMIT_S:g} s", hint=_HINT)
