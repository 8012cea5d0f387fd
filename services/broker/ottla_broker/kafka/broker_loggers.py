"""The loggers of this broker's process. They are described and altered as Kafka's: a level by name, until the process
ends.

Names are Python's, of modules (`ottla_broker.replication.replica_fetcher`) and packages. A logger without a level of
its own has that of the package around it, and `root` is around all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ottla_core.errors import ErrorCode, OttlaError

ROOT: Final = "root"

_TRACE: Final = 5  # Python has none; it is below DEBUG, for libraries that log more
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": _TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's levels, from the one that logs most to the one that logs least."""

_SET, _DELETE = 0, 1

_log = logging.getLogger(__name__)


def levels() -> dict[str, str]:
    """Return the level that is in force for each logger, the root's first."""
    known = sorted(logging.root.manager.loggerDict.items())
    return {ROOT: _name_of(logging.root)} | {
        name: _name_of(logger) for name, logger in known if isinstance(logger, logging.Logger)
    }


def misplaced(name: str, node_id: int) -> OttlaError | None:
    """Return why this broker does not describe or alter that resource's loggers: they are in another process."""
    if name == str(node_id):
        return None
    text = f"Unexpected broker id, expected {node_id}, but received {name[:80] or 'an empty name'}"
    return OttlaError(ErrorCode.INVALID_REQUEST, text, hint="send the request to that broker")


def alter(changes: Sequence[tuple[str, int, str | None]], *, dry: bool) -> None:
    """Carry out the changes, each a logger, an operation of KIP-412 and a level. All are carried out or none. Raises
    INVALID_CONFIG, INVALID_REQUEST."""
    if len({name for name, *_ in changes}) < len(changes):
        raise OttlaError(ErrorCode.INVALID_REQUEST, "the request alters a logger twice", hint="name each logger once")
    requested = {name: _level_after(name, operation, level) for name, operation, level in changes}
    if dry:
        return
    for name, level in requested.items():
        logger = logging.getLogger(None if name == ROOT else name)
        logger.setLevel(level)
        _log.warning("the level of the logger %s is now %s", name, _name_of(logger))


def _level_after(name: str, operation: int, level: str | None) -> int:
    if name != ROOT and not isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"this broker has no logger {name[:80]!r}",
            hint="describe the broker's loggers to see which exist",
        )
    if operation == _SET:
        if level is None or level not in LEVELS:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"{name}={(level or '')[:80]!r} is not a level",
                hint=f"use one of {', '.join(LEVELS)}",
            )
        return LEVELS[level]
    if operation != _DELETE:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "a logger's level is not a list",
            hint="set a level, or delete it to inherit the package's level",
        )
    if name == ROOT:
        raise OttlaError(
            ErrorCode.INVALID_REQUEST, "the root logger has no parent to inherit a level from", hint="set a level"
        )
    return logging.NOTSET


def _name_of(logger: logging.Logger) -> str:
    """Return the most silent of Kafka's levels that logs as much."""
    holds = logger.getEffectiveLevel()
    return next((name for name, level in LEVELS.items() if holds <= level), "FATAL")
