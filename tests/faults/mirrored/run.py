"""One run of the row, or of a mutant: writers, mirrors, harm; then sources and copies are read, and the verdict."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from tests.faults import librdkafka
from tests.faults.audit import AuditResult, compare_replicas
from tests.faults.cluster import until
from tests.faults.fault_run import CLIENTS, FACTOR, FaultRun, Result
from tests.faults.history import Name, key_of, read_history, value_of
from tests.faults.mirrored.checker import Findings, Pair, Told, Translation, check_pair, check_translations, told
from tests.faults.mirrored.copies import Copied, batches_of, records_of
from tests.faults.mirrored.idle_months import IdleMonths
from tests.faults.mirrored.nemesis import MirroredNemesis
from tests.faults.mirrored.rows import MirroredRow
from tests.faults.mirrored.sites import DELIVERIES, EAST, MIRRORS, REDIS, WEST, Sites
from tests.faults.mirrored.writer import AT_ONCE, PARTITIONS, SHARED, TABLE, TOPICS

import ottla
from ottla_proto import mirror_pb2 as pb

COPIES: Final = tuple(f"{alias}.{topic}" for alias in DELIVERIES for topic in TOPICS)
_KEPT: Final = {"retention.ms": -1}
"""Records outlast the months."""

_TABLE_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": 20_000, "min.cleanable.dirty.ratio": 0}
_CLEANER: Final = {"log.cleaner.backoff.ms": 500}
_LIMIT_S: Final = 60.0
_COPIED_LIMIT_S: Final = 90.0
_TRANSLATE_EVERY_S: Final = 0.3
_TRANSLATED_AT_ONCE: Final = 20
_RECENT: Final = 2_000
_MORE: Final = 150
"""Offsets of each partition that are written in between months."""

_LATER: Final = 1_000_000
"""Numbers of a writer."""

_SHARED_COPY: Final = f"least.{SHARED}"
_STRANGERS: Final = 60
"""Producers of the target that write to that copy as well: each has an id that some producer of the source has, too."""


@dataclass(slots=True)
class MirroredResult(Result[MirroredRow]):
    findings: Findings = field(default_factory=Findings)
    kills_by_kind: dict[str, int] = field(default_factory=dict)
    link_cuts: int = 0
    untranslated: int = 0
    idle_days: int = 0
    expired: int = 0
    moved: int = 0
    exact: int = 0
    """What `IdleMonths` counts."""

    @property
    def caught(self) -> bool:
        """Whether the broken rule shows in what lies in the copies, or in where readers are led."""
        return any(self.findings.counts[kind] for kind in self.row.findings)


class MirroredRun(FaultRun[MirroredResult]):
    cluster: Sites
    nemesis: MirroredNemesis

    def __init__(self, row: MirroredRow, directory: Path, seed: int, mutant: str = "") -> None:
        ones = {"coordinators": 1, "txn_coordinators": 1}
        super().__init__(MirroredResult(row), directory, **ones, sites=(EAST, WEST), beside=(*MIRRORS, REDIS))
        self.cluster = Sites(directory / "clusters", self.network, TOPICS, mutant)
        log = directory / "nemesis.log"
        self.nemesis = MirroredNemesis(self.cluster, SHARED, PARTITIONS, CLIENTS, f"{seed}-{row.name}", log)
        self.nemesis.prepare(COPIES, self._look_for_ends)
        self._to_write: Final = ("--bootstrap", self.cluster.east.bootstrap, "--clock", str(self.cluster.clock))
        self._writer: Final = self.client("writer", 0, "mirrored.writer", *self._to_write)
        self._later_writers = 0
        self._random: Final = random.Random(seed)
        self._translations: Final[list[Translation]] = []
        self._compacted: set[str] = set()
        self._over: Final = Event()
        self._translator: Final = Thread(target=self._translate, daemon=True)

    # ---- the course of it -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Until something of each topic is copied in both ways."""
        for site in (self.cluster.east, self.cluster):
            site.admin().configs.set(_CLEANER, timeout=10.0)
        for topic in TOPICS:
            config = _TABLE_CONFIG if topic == TABLE else _KEPT
            self.cluster.east.admin().topics.create(
                topic, partitions=PARTITIONS, replicas=FACTOR, config=config, timeout=10.0
            )
        self.cluster.start_mirrors()
        self._write_as_strangers(_SHARED_COPY)
        self._writer.start()
        until(lambda: len(self._positions_ahead()) == len(COPIES) * PARTITIONS, "all to be copied", _LIMIT_S)
        self._translator.start()

    def harm(self, seconds: float) -> None:
        self.result.row.story(self.nemesis, seconds)

    def come_to_rest(self) -> None:
        """All is copied; and other producers have written to the copies."""
        self.nemesis.until_whole()
        self._writer.terminate()
        self.until_ended([self._writer], _LIMIT_S)
        self._over.set()
        self._translator.join()
        self._until_copied()
        self._let_months_go_by()
        self._compacted = self._ids_of_compacted()
        self._judge_copies()

    def _let_months_go_by(self) -> None:
        result = self.result
        if not result.row.months:
            return
        months = IdleMonths(self.cluster, result.findings, self._write_more, self._until_copied, self.nemesis.note)
        try:
            months.go_by(result.row.months)
        except (TimeoutError, ottla.OttlaError) as error:  # what lies in the copies is compared all the same
            self.nemesis.failures.append(f"the months ended early: {error}")
        result.idle_days = self.cluster.idle_days
        result.expired, result.moved, result.exact = months.expired, months.moved, months.exact

    def _until_copied(self) -> None:
        """All that is in the source. A partition that stands still has to say so."""
        ends = {topic: self.cluster.east.ends(topic) for topic in TOPICS}
        try:
            until(lambda: self._is_copied(ends), "all to be copied", _COPIED_LIMIT_S)
        except TimeoutError:
            for silent in self._standing_still(ends):
                self.result.findings.add("silent", silent)
            raise

    def _standing_still(self, ends: dict[str, dict[int, int]]) -> Iterator[str]:
        """Partitions that are not copied to their ends, of which no mirror says anything."""
        flows = [flow for name in MIRRORS for flow in self.cluster.status(name)]
        in_trouble = {flow.name for flow in flows if flow.trouble or flow.paused}
        blamed = {(f.name, p.topic, p.partition) for f in flows for p in f.partitions if p.trouble}
        positions = self.cluster.positions()
        for alias, (topic, of_topic) in product(DELIVERIES, ends.items()):
            for partition, end in of_topic.items():
                at = (f"{alias}->west", topic, partition)
                if positions.get(at, -1) < end and at[0] not in in_trouble and at not in blamed:
                    yield f"{at[0]}: {topic}-{partition} stands still at {positions.get(at)}, of {end}"

    def _write_more(self) -> None:
        """Some records to each partition, by other producers than before."""
        self._later_writers += 1
        first = self._later_writers * _LATER
        writer = self.client(
            f"writer-{self._later_writers}", 0, "mirrored.writer", *self._to_write, "--first", str(first)
        )
        ends = [self.cluster.east.ends(topic)[partition] for topic in TOPICS for partition in range(PARTITIONS)]
        writer.start()
        until(
            lambda: all(
                self.cluster.east.ends(topic)[partition] >= end + _MORE
                for (topic, partition), end in zip(product(TOPICS, range(PARTITIONS)), ends, strict=True)
            ),
            "more to be written",
            _LIMIT_S,
        )
        writer.terminate()
        self.until_ended([writer], _LIMIT_S)

    def audit(self) -> AuditResult:
        return compare_replicas(self.cluster.data_dirs, factor=FACTOR, besides=self._compacted)

    def _are_begun(self, copy: str) -> bool:
        partitions = [p for name in MIRRORS for f in self.cluster.status(name) for p in f.partitions if p.copy == copy]
        return len(partitions) == PARTITIONS and not any(p.trouble for p in partitions)

    def _positions_ahead(self) -> list[int]:
        return [position for position in self.cluster.positions().values() if position > 0]

    def _ids_of_compacted(self) -> set[str]:
        """Return the ids of compacted topics of both sites, as in the names of their partitions' directories."""
        admins = self.cluster.admin(), self.cluster.east.admin()
        topics = [(admin, topic) for admin in admins for topic in admin.topics.describe(internal=True)]
        return {
            topic.id.replace("-", "")
            for admin, topic in topics
            if "compact" in str(admin.configs.get(topic=topic.name)["cleanup.policy"].value)
        }

    def _is_copied(self, ends: dict[str, dict[int, int]]) -> bool:
        positions = self.cluster.positions()
        return all(
            positions.get((f"{alias}->west", topic, partition), -1) >= end
            for alias in DELIVERIES
            for topic, of_topic in ends.items()
            for partition, end in of_topic.items()
        )

    def _look_for_ends(self) -> None:
        """A mirror that ended and had not been told to: a finding; it is started again."""
        for node in self.cluster.mirrors.values():
            if node.ended_by_itself is not None:
                self.nemesis.failures.append(f"{node.name} ended by itself with {node.ended_by_itself}")
                node.start()

    # ---- translations ---------------------------------------------------------------------------------------------

    def _translate(self) -> None:
        """Again and again, until all is over: offsets before the positions that were committed."""
        while not self._over.wait(_TRANSLATE_EVERY_S):
            try:
                committed = self.cluster.committed()
            except ottla.OttlaError:
                continue
            if not committed:
                continue
            (flow, topic, partition), position = self._random.choice(sorted(committed.items()))
            if topic == TABLE or not position:
                continue
            asked = [self._random.randrange(max(0, position - _RECENT), position) for _ in range(_TRANSLATED_AT_ONCE)]
            alias = flow.partition("->")[0]
            self._translations += self._by_redis(flow, alias, ottla.TopicPartition(topic, partition), asked)
            request = [pb.SourceOffset(topic=topic, partition=partition, offset=offset) for offset in asked]
            try:
                found = self.cluster.translate(self._random.choice(MIRRORS), flow, request)
            except ottla.OttlaError:
                continue
            for offset, at in zip(asked, found, strict=True):
                if at.error.code:
                    self.result.untranslated += 1
                else:
                    self._translations.append(Translation(alias, topic, partition, offset, at.offset))

    def _by_redis(
        self, flow: str, alias: str, source: ottla.TopicPartition, offsets: Sequence[int]
    ) -> Iterator[Translation]:
        """Nothing while it is away or not current."""
        for offset in offsets:
            found = self.cluster.in_redis.translate(flow, {source: offset})
            for translated in (found or {}).values():
                yield Translation(alias, *source, offset, translated, by_redis=True)

    # ---- the verdict ----------------------------------------------------------------------------------------------

    def _judge_copies(self) -> None:
        findings, known = self.result.findings, told(read_history(self.history))
        for topic in TOPICS:
            source = records_of(self.cluster.east.bootstrap, topic)
            for alias in DELIVERIES:
                try:
                    self._judge_copy(alias, topic, source, known[topic])
                except ottla.OttlaError as error:
                    findings.add("unreadable", f"{alias}.{topic}: {error}")

    def _judge_copy(self, alias: str, topic: str, source: dict[int, list[Any]], known: Told) -> None:
        findings, name = self.result.findings, f"{alias}.{topic}"
        copy, batches = records_of(self.cluster.bootstrap, name), batches_of(self.cluster.bootstrap, name, PARTITIONS)
        for partition in range(PARTITIONS):
            records = copy.get(partition, [])
            if name == _SHARED_COPY:
                records = self._without_strangers(name, records, partition)
            pair = Pair(alias, topic, partition, source.get(partition, []), records)
            check_pair(findings, pair, known, once=DELIVERIES[alias] != "at_least_once")
            of_this = [t for t in self._translations if t[:3] == (alias, topic, partition)]
            check_translations(findings, pair, batches[partition], of_this)

    def _write_as_strangers(self, copy: str) -> None:
        """Before anything is copied: batches like those of the source, but for what is in them. The flow has begun the
        copy by then: it takes no other one that has records."""
        until(lambda: self._are_begun(copy), f"{copy} to be begun", _LIMIT_S)
        for number in range(_STRANGERS):
            with librdkafka.Producer(self.cluster.bootstrap, copy, "stranger") as producer:
                for partition, key in _keys_of_stranger(number):
                    producer.send(value_of(key), key=key, partition=partition)
                producer.flush()

    def _without_strangers(self, copy: str, records: list[Copied], partition: int) -> list[Copied]:
        """What those have written has to be there, too."""
        written = {key for number in range(_STRANGERS) for at, key in _keys_of_stranger(number) if at == partition}
        for key in written.difference(record.key or b"" for record in records):
            self.result.findings.add("swallowed", f"{copy}-{partition}: {key!r}")
        return [record for record in records if record.key not in written]

    def judge(self, *, share: float) -> None:
        result, nemesis = self.result, self.nemesis
        self._over.set()
        result.kills_by_kind, result.kills = dict(nemesis.kills), nemesis.kills.total()
        result.link_cuts = nemesis.link_cuts
        if not self.complete:
            result.failures.append("what lies in the copies in the end was not compared")
        result.failures += result.findings.examples + result.audit.differences


def _keys_of_stranger(number: int) -> Iterator[tuple[int, bytes]]:
    """By partition."""
    for n in range(number * AT_ONCE, (number + 1) * AT_ONCE):
        for partition in range(PARTITIONS):
            yield partition, key_of(Name("stranger", partition, n))
