"""MirrorMaker 2's client library (MirrorClient), which programs that fail over ask where they go on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

from peers import security
from peers.jvm import SHORT_LIVED
from peers.maven import java
from peers.mirror_maker.jars import classpath
from peers.place import PeerError

_SOURCE: Final = Path(__file__).parent / "Remote.java"
_LIMIT_S: Final = 150.0
"""It is compiled each time, and a JVM on a busy machine takes its time."""


class Remote(NamedTuple):
    """What it finds in a target."""

    upstream: list[str]
    """The clusters whose heartbeats arrive."""
    hops: int
    """From the given one."""
    topics: list[str]
    """The copies, and of all topics `heartbeats` and `checkpoints`."""
    heartbeats: list[str]
    checkpoints: list[str]
    offsets: dict[str, int]
    """Where the given group goes on in each partition of the target."""


def remote(bootstrap: str, upstream: str, group: str) -> Remote:
    """Raises PeerError with all that it prints where it fails."""
    settings = json.dumps({"bootstrap.servers": bootstrap, **security.java()})
    command = [java(), *SHORT_LIVED, "-cp", classpath(), str(_SOURCE), settings, upstream, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode != 0:
        raise PeerError(f"MirrorClient ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Remote(**answer)
