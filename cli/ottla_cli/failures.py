"""What a failure looks like from outside: one sentence on standard error and an exit code, never a traceback.

| code | |
|---|---|
| 0 | done |
| 1 | it failed |
| 2 | the command line is wrong, or requests something impossible |
| 3 | part of it failed |
| 4 | the topic, partition, group, broker, config or user does not exist |
| 124 | it ran out of time, as for timeout(1) |
| 130, 141 | Ctrl-C; the reader of the output has closed it: as for every program of a Unix shell |
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from enum import IntEnum
from typing import Any, Final

import typer
from typer.exceptions import TyperException

from ottla.errors import ConfigError, ErrorCode, FatalError, OttlaError
from ottla_cli.terminal import say
from ottla_core.text.line_formatter import LineFormatter


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    NOT_FOUND = 4
    TIMEOUT = 124
    INTERRUPTED = 130
    CLOSED_PIPE = 141


_NOT_FOUND: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND,
)


_CLI_COMMANDS: Final = {
    "list": ("ls", "brokers"),
    "describe": ("show", "info"),
    "info": ("show",),
    "get": ("show",),
    "new": ("create", "add"),
    "add": ("create",),
    "create": ("add",),
    "delete": ("rm",),
    "remove": ("rm",),
    "trim-prefix": ("delete-records",),
    "add-partitions": ("alter",),
    "nodes": ("brokers",),
    "logdirs": ("log-dirs",),
    "describe-producers": ("producers",),
    "find-hanging": ("hanging",),
    "check": ("test",),
    "password": ("passwd",),
    "lag": ("show", "group show"),
}
"""What Kafka's tools and others call the commands."""

_NO_COMMAND: Final = re.compile(r"No such command '([^']*)'")
_NOISE: Final = re.compile(r"(?<=: )Value error, ")

_CLI_TERMS: Final = {
    "Admin().topics.create(…)": "`ottla topic create`",
    "Admin().users.set_password(…)": "`ottla user add`",
    "bootstrap= (or OTTLA_BOOTSTRAP)": "-b (or OTTLA_BOOTSTRAP)",
    "bootstrap=": "-b ",
    "describe the configs to see which exist": "list all configs with `ottla config explain`",
    "pass login=, or set security.protocol": "use a --profile that logs in",
    "pass tls=True, or set security.protocol": "use a --profile with TLS",
    "set sasl.mechanism, or pass login=": "set sasl.mechanism",
    "but login= is set": "but security.protocol requires one",
    "but tls= is set": "but security.protocol requires TLS",
    "leave login= out": "set another security.protocol",
    "leave tls= out": "set another security.protocol",
    "certificate= and key= in tls=": "ssl.keystore.location and ssl.key.location",
    "ca= in tls=": "ssl.truststore.location",
    "in login=": "in the profile",
    "in tls=": "in the profile",
    "set certificate=, too": "set ssl.keystore.location, too",
    "and key_password=": "and ssl.key.password",
    "; if the cluster is still starting, set a longer connect_timeout=": "",
}
"""Names of the SDK in its hints, and those of the command line."""


class NotFoundError(FatalError):
    """What was named does not exist."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message, hint=hint)


def no_partition(topic: str, number: int, count: int) -> NotFoundError:
    return NotFoundError(f"{topic} has no partition {number}", hint=f"its partitions are 0 to {count - 1}")


def fail(error: BaseException) -> ExitCode:
    """Report it to the user, and return the exit code."""
    if isinstance(error, BrokenPipeError):
        let_go_of_stdout()
        return ExitCode.CLOSED_PIPE
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, typer.Abort):
        return ExitCode.FAILED
    if os.environ.get("OTTLA_DEBUG"):
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    say(f"ottla: {sentence(error)}")
    return exit_code(error)


def exit_code(error: BaseException) -> ExitCode:
    if isinstance(error, OttlaError) and error.code in _NOT_FOUND:
        return ExitCode.NOT_FOUND
    if isinstance(error, OttlaError) and error.code == ErrorCode.REQUEST_TIMED_OUT:
        return ExitCode.TIMEOUT
    if isinstance(error, ConfigError) or (isinstance(error, TyperException) and error.exit_code == ExitCode.USAGE):
        return ExitCode.USAGE
    return ExitCode.FAILED


def sentence(error: BaseException) -> str:
    """What, why and what to do."""
    if isinstance(error, OttlaError):
        # An error in what the user typed needs no error name; one of the cluster can be looked up by its name.
        named = "" if isinstance(error, ConfigError | NotFoundError) else f" ({error.name})"
        return in_cli_terms(f"{error.message}{named}" + (f"; {error.hint}" if error.hint else ""))
    if isinstance(error, TyperException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "ottla"
        message = _usage_error(error.format_message(), context)
        return (
            f"{message} See `{path} --help`" if message.endswith("?") else f"{message.rstrip('.')}; see `{path} --help`"
        )
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {error.strerror or error}"
    return (
        f"internal error, {type(error).__name__}: {error}; "
        "please report this bug, with the output that the command prints with OTTLA_DEBUG=1"
    )


def _usage_error(message: str, context: Any) -> str:
    """Typer's message, with the name of a command that is called otherwise here."""
    missing = _NO_COMMAND.match(message)
    commands = _CLI_COMMANDS.get(missing[1], ()) if missing else ()
    here = getattr(context.command, "commands", ()) if context else ()
    known = [name for name in commands if name.split()[0] in here]
    return (
        f"No such command {missing[1]!r}: it is called {known[0]!r} here"
        if missing and known
        else _NOISE.sub("", message)
    )


def in_cli_terms(text: str) -> str:
    """Return a message or hint of the SDK in the words of the command line."""
    for theirs, ours in _CLI_TERMS.items():
        text = text.replace(theirs, ours)
    return text


class SdkWarnings(logging.Handler):
    """Prints the SDK's warnings, such as brokers that are away while it waits. An error that the SDK logs it raises as
    well, and the command reports that. A warning of a dry run is not repeated when the change is made."""

    def __init__(self) -> None:
        super().__init__()
        self._last_text = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno != logging.WARNING or (record.name == "ottla.admin" and text == self._last_text):
            return
        self._last_text = text
        say(f"ottla: {in_cli_terms(text)}")


def hear_sdk() -> None:
    """Send the SDK's log to the user: its warnings, or all of it if OTTLA_DEBUG is set."""
    log = logging.getLogger("ottla")
    if os.environ.get("OTTLA_DEBUG"):
        handler = logging.StreamHandler()
        handler.setFormatter(LineFormatter(logging.BASIC_FORMAT))
        logging.basicConfig(handlers=[handler])
        log.setLevel(logging.DEBUG)
    else:
        log.addHandler(SdkWarnings())


def let_go_of_stdout() -> None:
    """Detach from an output that has no reader any more: the interpreter must not try to flush it as it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
