"""The reading side is a group of three processes. One of them may be killed half-way; the other two finish its work."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from examples.demo.comparison import compare, delays
from examples.demo.flights import Flight
from examples.demo.member import GROUP, count_file, flights_read_by

import ottla
from ottla_core.errors import ErrorCode, OttlaError

MEMBERS: Final = 3
_LIMIT_S: Final = 120.0
_PAUSE_S: Final = 0.1


def read_as_group(bootstrap: str, directory: Path, source: list[Flight], count: int, *, kills: bool) -> dict[str, Any]:
    """Compare what the group has made of `count` records in the topic with `source`. `kills` one of the members."""
    paths = [directory / f"member-{n}.jsonl" for n in range(MEMBERS)]
    members = [subprocess.Popen([sys.executable, "-m", "examples.demo.member", bootstrap, str(path)]) for path in paths]
    try:
        survivors = list(members)
        if kills:
            _wait("half of the records", members, lambda: sum(map(_count, paths)) * 2 >= count)
            victim = max(range(MEMBERS), key=lambda n: _count(paths[n]))
            members[victim].kill()
            del survivors[victim]
        _wait("the last record", survivors, lambda: _is_read(bootstrap, count))
        for member in survivors:
            member.terminate()
            member.wait(_LIMIT_S)
    finally:
        for member in members:
            member.kill()
            member.wait(_LIMIT_S)
    reports = [flights_read_by(path) for path in paths]
    flights = [flight for of_member in reports for flight in of_member]
    # Each member by itself: a member that takes over begins before the end of the dead one.
    order = [(f"{n} {flight.carrier}", flight.number) for n, of_member in enumerate(reports) for flight in of_member]
    found = compare(flights, order, source)
    unique = {flight.number: flight for flight in flights}
    return {
        **found,
        "members": MEMBERS,
        "killed": int(kills),
        "repeated": len(flights) - len(unique),
        "delays": delays(unique.values()),
    }


def _count(path: Path) -> int:
    counted = count_file(path)
    return int(counted.read_text() or "0") if counted.exists() else 0


def _is_read(bootstrap: str, count: int) -> bool:
    """Return whether all of it is committed."""
    with ottla.Admin(bootstrap) as admin:
        return sum(admin.groups.committed(GROUP, if_missing="ok").values()) >= count


def _wait(purpose: str, members: list[subprocess.Popen[bytes]], done: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + _LIMIT_S
    while not done():
        ended = [member.returncode for member in members if member.poll() is not None]
        if ended or time.monotonic() > give_up_at:
            reason = f"a member exited with code {ended[0]}" if ended else f"timed out after {_LIMIT_S:g} s"
            raise OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the group did not read {purpose}: {reason}")
        time.sleep(_PAUSE_S)
