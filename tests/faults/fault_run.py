"""The frame of every row: a cluster in a network, clients, faults, a time to come to rest, a stop, a verdict."""

from __future__ import annotations

import json
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from tests.faults.audit import AuditResult, compare_replicas
from tests.faults.cluster import BROKERS, CONTROLLERS, ETCD, FaultCluster
from tests.faults.history import read_lines
from tests.faults.nemesis import Nemesis
from tests.faults.network import Network
from tests.faults.node import Node

import ottla
from ottla_core.event_loop import watchdog

FACTOR: Final = 3
CLIENTS: Final = ("client-0", "client-1")
LAG_MAX_MS: Final = 3000

Row = TypeVar("Row")


@dataclass(slots=True)
class Result(Generic[Row]):
    row: Row
    seconds: float = 0.0
    audit: AuditResult = field(default_factory=AuditResult)
    hits: int = 0
    kills: int = 0
    """Kills of processes that led or owned something."""
    failures: list[str] = field(default_factory=list)


AnyResult = TypeVar("AnyResult", bound=Result[Any])


class FaultRun(ABC, Generic[AnyResult]):
    """One row, once. A subclass makes `cluster` and `nemesis`, and puts every client that it makes into `clients`."""

    cluster: FaultCluster
    nemesis: Nemesis

    def __init__(
        self,
        result: AnyResult,
        directory: Path,
        *,
        coordinators: int = 0,
        txn_coordinators: int = 0,
        sites: Sequence[str] = ("",),
        beside: Sequence[str] = (),
    ) -> None:
        """`sites` are the prefixes of clusters that are alike, `beside` the nodes that belong to none of them."""
        self.result: Final = result
        self.complete = False
        """Whether it came to its end."""
        self.clients: Final[list[Node]] = []
        self.history: Final = directory / "history"
        self.history.mkdir(parents=True)
        services = [*names("controller", CONTROLLERS), *names("broker", BROKERS)]
        services += [*names("coordinator", coordinators), *names("txn", txn_coordinators)]
        nodes = [site + name for site in sites for name in (ETCD, *services)]
        self.network: Final = Network([*nodes, *CLIENTS, *beside])

    def run(self, seconds: float) -> AnyResult:
        """Do harm for about `seconds`. Whatever goes wrong is in the result's failures; nothing is left running."""
        result, row = self.result, self.result.row
        began = time.monotonic()
        self.network.start()
        try:
            self.cluster.start()
            self.cluster.admin().configs.set({"replica.lag.time.max.ms": LAG_MAX_MS}, timeout=10.0)
            self.begin()
            self._harm(seconds)
            self.come_to_rest()
            self.cluster.stop()
            result.audit = self.audit()
            self.complete = True
        except (TimeoutError, RuntimeError, ottla.OttlaError) as error:
            result.failures.append(f"{type(error).__name__}: {error}")
        finally:
            for client in self.clients:
                client.kill()
            self.cluster.kill()
            self.network.stop()
        result.hits, result.kills = len(self.nemesis.hits), self.nemesis.leader_kills
        result.failures += self.nemesis.failures + long_turns(self.cluster.directory)
        self.judge(share=seconds / (row.minutes * 60))
        if not result.failures:
            for data_dir in self.cluster.data_dirs:
                shutil.rmtree(data_dir)
        result.seconds = time.monotonic() - began
        return result

    @abstractmethod
    def begin(self) -> None:
        """Make topics and start clients; return once they do what they are there for."""

    @abstractmethod
    def come_to_rest(self) -> None:
        """The harm is undone: let clients come to an end, and see what is there then."""

    def audit(self) -> AuditResult:
        """Compare the replicas on disk, after everything has stopped."""
        return compare_replicas(self.cluster.data_dirs, factor=FACTOR)

    @abstractmethod
    def judge(self, *, share: float) -> None:
        """Check the history, and hold all against the goals and that `share` of the row's floors."""

    def make_topic(self, name: str, partitions: int, **config: object) -> None:
        """Every replica is in its ISR when it returns; configs' names are written with underscores."""
        configs = {key.replace("_", "."): value for key, value in config.items()}
        limit_s = 10.0 + partitions / 50
        create = self.cluster.admin().topics.create
        create(name, partitions=partitions, replicas=FACTOR, config=configs, timeout=limit_s)
        self.cluster.until_whole(name)

    def client(self, name: str, number: int, module: str, *arguments: str) -> Node:
        """A process of `python -m tests.faults.{module}` that writes the history `name`."""
        command = [sys.executable, "-m", f"tests.faults.{module}", "--process", name, "--history", str(self.history)]
        where = CLIENTS[number % len(CLIENTS)]
        node = Node(name, self.network.command(where, [*command, *arguments]), self.cluster.directory / f"{name}.log")
        self.clients.append(node)
        return node

    def all_acknowledged(self, writers: Sequence[Node], partitions: int) -> bool:
        """Whether each of them was, in so many partitions."""
        return all(
            len({op["partition"] for op in read_lines(self.history, writer.name) if op["type"] == "ok"}) == partitions
            for writer in writers
        )

    def is_stable(self, *topics: str) -> bool:
        """Whether no transaction is open in the topics: that of a writer that was killed is, until it times out."""
        transactions = self.cluster.admin().transactions
        try:
            return not any(partition.is_blocked for topic in topics for partition in transactions.open_in(topic))
        except ottla.OttlaError:
            return False

    def until_ended(self, clients: Sequence[Node], limit_s: float) -> None:
        """So many seconds for each of them; to end badly is a failure."""
        for client in clients:
            if (code := client.wait(limit_s)) != 0:
                self.nemesis.failures.append(f"{client.name} ended with {code}; its log lies beside the brokers'")

    def harm(self, seconds: float) -> None:
        """What the row does to the cluster; undone when it returns."""
        self.result.row.run(self.nemesis, time.monotonic() + seconds)

    def _harm(self, seconds: float) -> None:
        try:
            self.harm(seconds)
        except (TimeoutError, ottla.OttlaError) as error:
            self.nemesis.failures.append(f"the faults ended early: {error}")
            self.cluster.recover()


def long_turns(directory: Path) -> list[str]:
    """What the watchdogs have told in the services' logs: turns of a loop that kept everybody else waiting."""
    return [
        f"{log.stem}: {json.loads(line)['event']}"
        for log in sorted(directory.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if watchdog.__name__ in line
    ]


def names(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]
