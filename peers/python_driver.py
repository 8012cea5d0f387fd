"""Makes a driver of a client in Python: `python -m peers.python_driver <module>:<class> <what> <options as JSON>`.

For a client in another version than the one that is installed here: the same code drives both.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from peers.client import CommitError, Member
from peers.driver import record_line, record_of, step_of

_writing: Final = threading.Lock()


def main(named: str, what: str, options: str = "{}") -> None:
    logging.basicConfig(level=logging.WARNING)  # to stderr: what a client says while it tries
    module, _, name = named.partition(":")
    client: Any = getattr(importlib.import_module(module), name)()
    for line in _answers(client, what, json.loads(options)):
        _write(line)


def _answers(client: Any, what: str, options: dict[str, Any]) -> Iterator[bytes]:
    match what:
        case "version":
            yield _line(name=client.name, version=client.version)
        case "produce":
            records = (record_of(json.loads(line)) for line in sys.stdin.buffer)
            yield from (_line(offset=offset) for offset in client.produce(records=records, **options))
        case "consume":
            yield from map(record_line, client.consume(**options))
        case "transact":
            client.transact(steps=(step_of(json.loads(line)) for line in sys.stdin.buffer), **options)
        case "transform":
            client.transform(**options)
        case "offset-for-time":
            yield _line(offset=client.offset_for_time(**options))
        case "admin":
            yield _line(ok=True, did=client.admin_round_trip(options["bootstrap"], options["topic"]))
        case "group":
            yield from _group(client.join(**options, tell=_tell))
        case _:
            raise ValueError(f"no command {what}")


def _group(member: Member) -> Iterator[bytes]:
    """What it has been told to do, until it is told to close; it tells of its events by itself."""
    for command in sys.stdin:
        match command.split():
            case ["commit"]:
                yield _committed(member)
                continue
            case ["seek", partition, offset]:
                member.seek(int(partition), int(offset))
            case ["close"]:
                break
            case _:
                raise ValueError(f"no command {command}")
        yield _line(done=command.strip(), at_ns=time.monotonic_ns())
    member.close()


def _committed(member: Member) -> bytes:
    asked_ns = time.monotonic_ns()
    try:
        member.commit()
    except CommitError as error:
        return _line(failed="commit", error=str(error), asked_ns=asked_ns, at_ns=time.monotonic_ns())
    return _line(done="commit", asked_ns=asked_ns, at_ns=time.monotonic_ns())


def _tell(event: dict[str, Any]) -> None:
    _write(_line(**event, at_ns=time.monotonic_ns()))


def _write(line: bytes) -> None:
    """Whole: a member's thread writes too."""
    with _writing:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def _line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
