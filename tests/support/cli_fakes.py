"""An Admin and a Consumer for tests of the command line: the methods that it calls, over dictionaries."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from ottla.admin.admin import BrokerInfo, ClusterInfo
from ottla.admin.configs import ConfigEntry
from ottla.admin.partitions import Election
from ottla.admin.replica_verification import Progress, ReplicaCheck
from ottla.admin.topics import PartitionInfo, TopicInfo
from ottla.client.log_dirs import LogDirInfo
from ottla.errors import ErrorCode, OttlaError, TopicExistsError, UnknownTopicError, error_from_code
from ottla.record import Record
from ottla_cli.main import run
from ottla_core.model import TopicPartition

TOPIC, DEFAULT = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"
WARNING = "records with a key may now go to another partition than before"


def ottla(line: str) -> int:
    """Run the command line `ottla <line>` in this process; its exit code."""
    return run(shlex.split(line))


def sit(monkeypatch: pytest.MonkeyPatch, yes: bool) -> list[str]:
    """Somebody sits at the terminal and answers so; gives the questions that were asked."""
    asked: list[str] = []

    def confirm(question: str, err: bool) -> bool:
        assert err, "a question is no data"
        asked.append(question)
        return yes

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(typer, "confirm", confirm)
    return asked


@dataclass
class Log:
    """A partition: its first offset, and the timestamp of each record from there on."""

    start: int = 0
    times: tuple[int, ...] = ()


class FakeAdmin:
    """One cluster. `calls` names what changed something, in order; what is in `broken` raises."""

    def __init__(self, **topics: list[Log]) -> None:
        self.logs = topics
        self.calls: list[tuple[Any, ...]] = []
        self.broken: set[str] = set()
        self.advice = "did you mean orders?"
        self.infos: dict[tuple[str, int], PartitionInfo] = {}
        """Partitions that are otherwise than led by broker 0 and held by nobody else."""
        self.values = {"retention.ms": ("604800000", DEFAULT), "segment.ms": ("3600000", TOPIC)}
        self.topics = FakeTopics(self)
        self.configs = FakeConfigs(self)
        self.partitions = FakePartitions(self)
        self.brokers = {0: BrokerInfo(0, "localhost:9650", "", "", False, 7)}
        self.controller = (0, "localhost:9640", 3)
        self.cluster = self

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *error: object) -> None: ...

    def describe(self) -> ClusterInfo:
        id_, address, epoch = self.controller
        return ClusterInfo("c1", id_, address, tuple(self.brokers.values()), epoch)

    def log_dirs(self, broker: int, timeout: float) -> tuple[LogDirInfo, ...]:
        self.check(f"broker {broker}")
        sizes = {TopicPartition(name, n): 100 for name, logs in self.logs.items() for n in range(len(logs))}
        return (LogDirInfo("/data", 1 << 30, 1 << 29, sizes),)

    def stand(self, name: str, partition: int, **fields: Any) -> None:
        """Let a partition be as `fields` say: leader, replicas, isr, offline."""
        usual = PartitionInfo(partition, 0, 4, (0,), (0,))
        self.infos[name, partition] = replace(self.infos.get((name, partition), usual), **fields)

    def check(self, what: str) -> None:
        if what in self.broken:
            raise error_from_code(ErrorCode.LEADER_NOT_AVAILABLE, f"{what}: nobody leads", hint="wait")


class FakeTopics:
    def __init__(self, admin: FakeAdmin) -> None:
        self.admin = admin

    def describe(self, *names: str, internal: bool = False) -> list[TopicInfo]:
        for name in names:
            self._there(name)
        return [self._info(name) for name in names or sorted(self.admin.logs)]

    def list(self) -> list[str]:
        return sorted(self.admin.logs)

    def exists(self, name: str) -> bool:
        return name in self.admin.logs

    def create(self, name: str, *, dry_run: bool, partitions: int | None, **settings: Any) -> TopicInfo | None:
        if name in self.admin.logs:
            raise TopicExistsError(ErrorCode.TOPIC_ALREADY_EXISTS, "exists", hint="choose another name")
        if dry_run:
            return None
        self.admin.calls.append(("create", name, partitions, settings["replicas"], settings["config"]))
        self.admin.logs[name] = [Log()] * (partitions or 1)
        return self._info(name)

    def delete(self, name: str) -> None:
        self._there(name)
        self.admin.check(f"delete {name}")
        self.admin.calls.append(("delete", name))
        del self.admin.logs[name]

    def delete_records(self, name: str, before: Mapping[int, int]) -> dict[int, int]:
        self.admin.calls.append(("delete_records", name, dict(before)))
        return dict(before)

    def add_partitions(self, name: str, total: int, *, dry_run: bool) -> str:
        self._there(name)
        if not dry_run:
            self.admin.calls.append(("add_partitions", name, total))
            self.admin.logs[name] += [Log()] * (total - len(self.admin.logs[name]))
        return WARNING

    def offsets(self, name: str, at: str | datetime, timeout: float | None = None) -> dict[int, int | None]:
        self._there(name)
        self.admin.check("offsets")
        logs = self.admin.logs[name]
        if at == "earliest":
            return {number: log.start for number, log in enumerate(logs)}
        if isinstance(at, str):
            return {number: log.start + len(log.times) for number, log in enumerate(logs)}
        when = at.timestamp() * 1000
        return {
            number: next((log.start + i for i, time in enumerate(log.times) if time >= when), None)
            for number, log in enumerate(logs)
        }

    def first_timestamps(self, name: str, timeout: float) -> dict[int, int]:
        self.admin.check("offsets")
        return {number: log.times[0] for number, log in enumerate(self.admin.logs[name]) if log.times}

    def _there(self, name: str) -> None:
        if name not in self.admin.logs:
            raise UnknownTopicError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {name!r} does not exist", hint=self.admin.advice
            )

    def _info(self, name: str) -> TopicInfo:
        partitions = (
            self.admin.infos.get((name, number), PartitionInfo(number, 0, 4, (0,), (0,)))
            for number in range(len(self.admin.logs[name]))
        )
        return TopicInfo(name, "ab" * 16, tuple(partitions))


class FakePartitions:
    """`elections` and `checks` are the answers; an election that is not among them comes out well."""

    def __init__(self, admin: FakeAdmin) -> None:
        self.admin = admin
        self.elections: dict[tuple[str, int], OttlaError] = {}
        self.confirmations: dict[tuple[str, int], ReplicaCheck] = {}

    def elect_leaders(self, partitions: list[tuple[str, int]] | None, *, unclean: bool = False) -> tuple[Election, ...]:
        self.admin.calls.append(("elect", partitions, unclean))
        asked = self.elections if partitions is None else partitions
        return tuple(Election(t, n, 1, self.elections.get((t, n))) for t, n in asked)

    def verify_replicas(self, topic: str, partition: int, *, on_progress: Progress) -> ReplicaCheck:
        self.admin.check(f"verify {topic}-{partition}")
        on_progress(1, 2)
        good = ReplicaCheck(topic, partition, 0, 5, 100, (0, 1), {}, {}, {0: 5, 1: 5})
        return self.confirmations.get((topic, partition), good)


class FakeConfigs:
    def __init__(self, admin: FakeAdmin) -> None:
        self.admin = admin

    def get(self, *, topic: str | None = None, broker: int | None = None, timeout: float = 0) -> dict[str, ConfigEntry]:
        self.admin.check("configs")
        return {
            name: ConfigEntry(name, value, source, "long", False, name != "segment.ms", "What it is for.")
            for name, (value, source) in self.admin.values.items()
        }

    def of_topics(self, *names: str, timeout: float) -> dict[str, dict[str, ConfigEntry]]:
        return {name: self.get(topic=name, timeout=timeout) for name in names}

    def set(
        self, config: Mapping[str, str], *, topic: str | None, broker: int | None = None, dry_run: bool = False
    ) -> None:
        self._check(config)
        if not dry_run:
            self.admin.calls.append(("set", topic, broker, dict(config)))
            self.admin.values |= {name: (value, TOPIC) for name, value in config.items()}

    def unset(self, *names: str, topic: str | None, broker: int | None = None, dry_run: bool = False) -> None:
        self._check(names)
        if not dry_run:
            self.admin.calls.append(("unset", topic, broker, names))
            self.admin.values |= dict.fromkeys(names, ("1", DEFAULT))

    def _check(self, names: Any) -> None:
        for name in names:
            if name not in self.admin.values:
                raise error_from_code(ErrorCode.INVALID_CONFIG, f"there is no topic config {name!r}", hint="look")


class FakeConsumer:
    """Hands out `polls`, one a time; a callable among them is called instead (to raise)."""

    def __init__(self, polls: list[list[Record[bytes, Any]] | Callable[[], None]], start: Mapping[int, int]) -> None:
        self.polls = list(polls)
        self.positions = dict(start)
        self.paused: list[int] = []
        self.asked: list[tuple[float, int]] = []
        self.finished = False

    def poll(self, timeout: float, *, max_records: int) -> list[Record[bytes, Any]]:
        self.asked.append((timeout, max_records))
        rows = self.polls.pop(0) if self.polls else []
        if callable(rows):
            rows()
            return []
        rows = rows[:max_records]
        for row in rows:
            self.positions[row.partition] = row.offset + 1
        return rows

    def position(self, partition: tuple[str, int]) -> int:
        return self.positions[partition[1]]

    def pause(self, partition: tuple[str, int]) -> None:
        self.paused.append(partition[1])

    def __enter__(self) -> FakeConsumer:
        return self

    def __exit__(self, *error: object) -> None: ...


def row(partition: int, offset: int, value: bytes | None = b"v", key: bytes | None = None) -> Record[bytes, Any]:
    return Record("orders", partition, offset, 1_793_527_200_000 + offset, key, value, [])
