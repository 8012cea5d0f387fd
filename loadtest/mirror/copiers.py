"""What copies: ottla's mirror, a loop that consumes and produces, MirrorMaker 2; each a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from peers.mirror_maker.process import MirrorMaker

from loadtest.mirror.sites import Sites
from loadtest.rows.flow_file import write_flow
from ottla_stack.ports import free_port_base

_STOP_S: Final = 60.0
_JVM: Final = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")
"""What connect-mirror-maker.sh starts it with."""
_ONE_REPLICA: Final = (
    "replication.factor",
    *(f"{topic}.topic.replication.factor" for topic in ("checkpoints", "heartbeats", "offset-syncs")),
    *(f"{kind}.storage.replication.factor" for kind in ("config", "offset", "status")),
)
_MIRROR_MAKER: Final = {
    "tasks.max": 2,
    "refresh.topics.interval.seconds": 1,
    "plugin.discovery": "service_load",
    **dict.fromkeys(_ONE_REPLICA, 1),
}


class Copying(NamedTuple):
    """A process that has been started; `copy` is the topic in west that it fills."""

    pid: int
    copy: str


Copier = Callable[[Sites, str, str, Path], AbstractContextManager[Copying]]
"""Copies a topic of east. The name is unique to the run, and so is the folder."""


@contextmanager
def mirror(sites: Sites, topic: str, name: str, folder: Path, delivery: str = "at_least_once") -> Iterator[Copying]:
    file, port = folder / "mirror.toml", free_port_base()
    write_flow(file, name, sites.east, sites.west, topic, delivery)
    with _process(folder, "ottla_mirror", f"--file={file}", f"--port={port}", f"--admin-port={port + 1}") as pid:
        yield Copying(pid, f"{name}.{topic}")


@contextmanager
def exactly_once(sites: Sites, topic: str, name: str, folder: Path) -> Iterator[Copying]:
    with mirror(sites, topic, name, folder, "exactly_once") as copying:
        yield copying


@contextmanager
def loop(sites: Sites, topic: str, name: str, folder: Path) -> Iterator[Copying]:
    copy = f"{name}.{topic}"
    sites.target.topics.create(copy, partitions=len(sites.source.topics.offsets(topic)))
    with _process(folder, "loadtest.mirror.loop", sites.east, sites.west, topic, copy) as pid:
        yield Copying(pid, copy)


@contextmanager
def mirror_maker(sites: Sites, topic: str, name: str, folder: Path) -> Iterator[Copying]:
    settings = {
        **_MIRROR_MAKER,
        "clusters": f"{name}, west",
        f"{name}.bootstrap.servers": sites.east,
        "west.bootstrap.servers": sites.west,
        f"{name}->west.enabled": "true",
        f"{name}->west.topics": topic,
    }
    maker = MirrorMaker(folder, settings, jvm=_JVM)
    maker.start()
    try:
        yield Copying(maker.pid, f"{name}.{topic}")
    finally:
        maker.stop()


@contextmanager
def _process(folder: Path, module: str, *arguments: str) -> Iterator[int]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
