"""Mirrors that are killed again and again while each partition gets a record all the time.

It is held against how long a partition's copy gets no record: a mirror that is killed starts again at once, as whatever
supervises it does.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

import ottla
from loadtest.goals import Figures, say
from loadtest.mirror.sites import PARTITIONS, Sites, records_in
from loadtest.rows.flow_file import write_flow
from ottla.connect import ClusterClient, KafkaTransport, list_offsets
from ottla_core.model import LATEST_TIMESTAMP, TopicPartition
from ottla_mirror.machines.flows import DELIVERIES
from ottla_stack.ports import free_port_base
from ottla_stack.running import wait_for

SECONDS: Final = 300.0
SESSION_S: Final = 15.0
"""A mirror's default."""

_EVERY_S: Final = 20.0
_MIRRORS: Final = 3
_SEED: Final = 41
_TICK_S: Final = 0.05
_LOOK_S: Final = 0.2


class KilledMirror:
    """A process with its own node id, which `kill` ends and starts again at once."""

    def __init__(self, node_id: int, file: Path) -> None:
        port = free_port_base()
        settings = {"node-id": node_id, "file": file, "port": port, "admin-port": port + 1}
        settings["session-timeout-s"] = SESSION_S
        self._command: Final = [sys.executable, "-m", "ottla_mirror", *(f"--{k}={v}" for k, v in settings.items())]
        self._log: Final = file.with_name(f"mirror-{node_id}.log")
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        self.end(signal.SIGKILL)
        self._start()

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(by)
        self._process.wait()


def kills(sites: Sites, folder: Path, pairs: int, records: int) -> Figures:
    """All three ways of delivery, each for so many seconds; `pairs` and `records` are those of other rows."""
    found = {way: kills_of(sites, folder / way, way, SECONDS) for way in DELIVERIES}
    return {"longest_stall_s": [max(found.values())], **{f"{way}_stall_s": [stall] for way, stall in found.items()}}


def kills_of(sites: Sites, folder: Path, way: str, seconds: float) -> float:
    """The longest time for which the copy of a partition got no record that readers of committed ones have."""
    folder.mkdir()
    alias = way.replace("_", "-")
    topic, file, chance = f"kills-{alias}", folder / "mirror.toml", random.Random(_SEED)
    write_flow(file, alias, sites.east, sites.west, topic, way)
    sites.source.topics.create(topic, partitions=PARTITIONS)
    cluster = ClusterClient(sites.west.split(","), KafkaTransport("kills"))
    with ExitStack() as ended, closing(cluster), _written(sites.east, topic) as written:
        mirrors = [KilledMirror(number, file) for number in range(_MIRRORS)]
        for mirror in mirrors:
            ended.callback(mirror.end)
        copy = f"{alias}.{topic}"
        wait_for(
            lambda: sites.target.topics.exists(copy) and min(_ends(cluster, copy).values()) > 0, "all to be copied"
        )
        began_at, kill_at, count = time.monotonic(), time.monotonic() + _EVERY_S, 0
        ends, advanced_at, longest = _ends(cluster, copy), dict.fromkeys(range(PARTITIONS), began_at), 0.0
        while (now := time.monotonic()) < began_at + seconds:
            if now >= kill_at:
                kill_at += _EVERY_S
                chance.choice(mirrors).kill()
                count += 1
            before, ends = ends, _ends(cluster, copy)
            for number, end in ends.items():
                longest = max(longest, now - advanced_at[number])
                if end > before[number]:
                    advanced_at[number] = now
            time.sleep(_LOOK_S)
    say("kills", way=way, kills=count, seconds=seconds, longest_stall_s=longest, written=written[0], seed=_SEED)
    assert records_in(sites.target, copy) > 0
    return longest


def _ends(cluster: ClusterClient, copy: str) -> dict[int, int]:
    """By partition: behind the last record that readers of committed ones have."""
    asked = {TopicPartition(copy, number): LATEST_TIMESTAMP for number in range(PARTITIONS)}
    found = list_offsets(cluster, asked, timeout=30.0, read_committed=True)
    return {partition.partition: 0 if at is None else at.offset for partition, at in found.items()}


@contextmanager
def _written(bootstrap: str, topic: str) -> Iterator[list[int]]:
    """A record for each partition in each tick; how many there were, in the end."""
    stopping, count = Event(), [0]

    def write() -> None:
        with ottla.Producer(bootstrap, topic=topic, value="bytes") as producer:
            while not stopping.wait(_TICK_S):
                for number in range(PARTITIONS):
                    producer.send(b"v" * 100, partition=number)
                count[0] += PARTITIONS

    thread = Thread(target=write, name="writer")
    thread.start()
    try:
        yield count
    finally:
        stopping.set()
        thread.join()
