"""What the services write into their logs while they are fuzzed: errors are bugs, and so are long turns of a loop,
whatever a client was answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ottla_core.event_loop import watchdog

_PLACE: Final = re.compile(r'File "[^"]*?([^/"]+\.py|<[^"]+>)", line (\d+), in (\S+)')


class Bug(NamedTuple):
    """`signature` is where it was raised and what: the same bug has the same, whatever the case."""

    signature: str
    text: str


class Journal:
    """Reads some logs, on from where they were read to."""

    def __init__(self, logs: Iterable[Path]) -> None:
        self._read_to: Final = dict.fromkeys(logs, 0)

    @property
    def size_mb(self) -> float:
        return sum(log.stat().st_size for log in self._read_to) / 1e6

    def new_bugs(self) -> list[Bug]:
        lines = [line for log in self._read_to for line in self._new_lines(log)]
        return [bug for line in lines if (bug := bug_in(line.decode(errors="replace"))) is not None]

    def _new_lines(self, log: Path) -> list[bytes]:
        """Those that are whole."""
        with log.open("rb") as file:
            file.seek(self._read_to[log])
            *lines, rest = file.read().split(b"\n")
            self._read_to[log] = file.tell() - len(rest)
        return lines


def bug_in(line: str) -> Bug | None:
    """None for a line that tells of no error of the service's own."""
    try:
        told = json.loads(line)
        if told["logger"] == watchdog.__name__:
            return Bug("a long turn of the loop", told["event"])
        if told["level"] not in ("ERROR", "CRITICAL"):
            return None
    except (ValueError, KeyError, TypeError):
        if "Traceback" not in line and "Fatal" not in line:
            return None
        told = {"event": line}
    trace = str(told.get("exc_info") or "")
    places = _PLACE.findall(trace)
    where = ":".join(places[-1]) if places else str(told.get("event"))[:120]
    what = trace.rstrip().rsplit("\n", 1)[-1][:160]
    return Bug(f"{where} {re.sub(r'[0-9]+', 'n', what)}".strip(), f"{told.get('event')}\n{trace}")
