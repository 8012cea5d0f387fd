"""A census counts what all services of a cluster keep at one moment: in memory, on disk and in etcd."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from tests.growth.bounds import BOUNDS as BOUNDS_OF_GROWTH
from tests.growth.measurement import Measurement
from tests.growth.roles import OUTSIDE, TASK, Roles
from tests.growth.surroundings import add_keys, general
from tests.growth.verdict import WORK, Bound
from tests.growth.walk import Root, Structure, Walk, module_of
from tests.world.cluster import Cluster

from ottla_broker.kafka.apis import APIS
from ottla_core.telemetry import LATENCY_BUCKETS_S

_LOOKS: Final = 3
_BETWEEN_S: Final = 0.1
_FOREIGN: Final = ("tests.", "grpc")
_NAMES: Final = {"controller": "controller", "broker": "broker", "group": "group-coordinator", "txn": "txn-coordinator"}
"""`tests.growth` calls the services by these names. The keys are their kinds in the world."""
_LOGS: Final = (".log", ".index", ".timeindex")
_GATHERED: Final = "each index of a segment writes its entries once they are 4 KiB, and the world has 36 segments"
_METHODS: Final = 40
"""More gRPC methods than a broker serves."""
_SERIES: Final = "a broker has a histogram for each API and each method that was called since its start"
BOUNDS: Final = (
    *BOUNDS_OF_GROWTH,
    Bound("broker, *: AbortedIndex._entries.pending", 36 * 8192, _GATHERED),
    Bound("broker, *: _EntryFile._tail.pending", 2 * 36 * 8192, _GATHERED),
    Bound("broker: Histogram.counts", 3 * (len(APIS) + _METHODS) * (len(LATENCY_BUCKETS_S) + 1), _SERIES),
)


class Census:
    """This counts what a cluster keeps, by the walk and the roles of `tests.growth`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def measured(self, units: int, life: int = 0) -> Measurement:
        """Count a few times, and keep the smallest count of each structure: a larger one includes work in progress."""
        sizes, paths = self._counted()
        for _ in range(_LOOKS - 1):
            self._cluster.world.run_for(_BETWEEN_S)
            again, _ = self._counted()
            sizes &= again
        return Measurement(WORK, units, life, sizes, paths, 0.0, 0.0)

    def _counted(self) -> tuple[Counter[Structure], dict[Structure, str]]:
        cluster = self._cluster
        apps = {_name_of(name): cluster.apps[name] for name in cluster.services}
        roles = Roles(apps.items())
        walk = Walk(roles.of, _is_foreign)
        census = walk.run([*roles.roots(), *self._tasks()])
        # The bytes in a coroutine belong to the message that it is handling, so nothing keeps them.
        kept = {s: size for s, size in census.sizes.items() if s.kind != "bytes" or "<coroutine>" not in s.name}
        sizes = Counter(kept)
        add_keys(sizes, cluster.etcd.memory)
        with cluster.disks.inspected():
            for broker in cluster.brokers:
                for path in self._files(PurePosixPath("/", broker, "data")):
                    self._add_file(sizes, path)
        return sizes, census.paths

    def _tasks(self) -> Iterator[Root]:
        for name in self._cluster.services:
            tasks = sorted(asyncio.all_tasks(self._cluster.processes[name].loop), key=hash)
            for task in tasks:
                yield Root(TASK, getattr(task.get_coro(), "__qualname__", "?"), task)

    def _files(self, directory: PurePosixPath) -> Iterator[PurePosixPath]:
        disks = self._cluster.disks
        for name in sorted(disks.names_in(directory)):
            if disks.is_directory(directory / name):
                yield from self._files(directory / name)
            else:
                yield directory / name

    def _add_file(self, sizes: Counter[Structure], path: PurePosixPath) -> None:
        """Count a file, and its bytes unless retention or compaction bounds them.

        In a checkpoint each number counts as one byte, because an offset that gets another digit is no growth.
        """
        disks, name = self._cluster.disks, general(path.name)
        sizes[Structure(OUTSIDE, f"files {name}", "items")] += 1
        if path.suffix not in _LOGS:
            is_text = name.endswith("checkpoint")
            size_bytes = len(general(disks.read_text(path))) if is_text else disks.size_bytes(path)
            sizes[Structure(OUTSIDE, f"files {name}", "bytes")] += size_bytes


def _name_of(process: str) -> str:
    kind, _, number = process.partition("-")
    return f"{_NAMES[kind]}-{number or 0}"


def _is_foreign(value: Any) -> bool:
    return module_of(value).startswith(_FOREIGN) and not isinstance(value, asyncio.Future)
