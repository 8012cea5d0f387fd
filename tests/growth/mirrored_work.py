"""Units of work for the mirrors: topics and groups that come, are copied, and go on both sides.

A topic is copied while the next units do their work, so that none of them waits for it: each unit takes the topics of
the ones before it a stage further.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from tests.growth.aborted import AbortedError
from tests.growth.cluster import GrowthCluster
from tests.growth.running_mirror import TARGET

import ottla
from ottla_core.model import TopicPartition
from ottla_stack.running import wait_for

READ: Final = "read"
LIMIT_S: Final = 60.0
_ABORTED: Final = b"aborted"
_NUDGED: Final = "nudged"
_OWN_TOPICS: Final = (
    "{alias}.checkpoints.internal",
    "mm2-mirror.{alias}.internal",
    "mm2-offset-syncs.{alias}.internal",
)


@dataclass
class CopiedTopic:
    """A topic of the source, with a group of that name. `ends` has where its copies ended when it was made anew."""

    name: str
    is_odd: bool
    advance: Callable[[CopiedTopic], None]
    ends: Mapping[str, int]


class MirroredWork:
    """The mirrors' share of the work. `source` and `target` look at the two clusters, `to_source` has transactions."""

    def __init__(
        self,
        cluster: GrowthCluster,
        source: ottla.Admin,
        to_source: ottla.Producer[Any, Any],
        chance: random.Random,
    ) -> None:
        assert cluster.target is not None, "it is mirrored"
        self.source: Final = source
        self.target: ottla.Admin
        self.to_target: ottla.Producer[Any, Any]
        self._to_source: Final = to_source
        self._cluster: Final = cluster
        self.bootstrap: Final = cluster.target.bootstrap
        self._chance: Final = chance
        self._numbers: Final = itertools.count()
        self._coming: list[CopiedTopic] = []
        self._open: Final = ExitStack()

    def __enter__(self) -> Self:
        enter = self._open.enter_context
        self.target = enter(ottla.Admin(self.bootstrap, request_timeout=LIMIT_S))
        settings: dict[str, Any] = {"linger": 0, "key": "bytes", "value": "bytes"}
        settings |= {"metadata_max_idle": 1, "metadata_max_age": 1}
        self.to_target = enter(ottla.Producer(self.bootstrap, **settings))
        wait_for(lambda: set(self.own_topics) <= set(self.target.topics.list()), "the flows' own topics")
        for topic in self.own_topics:
            self.target.configs.set({"min.compaction.lag.ms": 0}, topic=topic)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    @property
    def own_topics(self) -> list[str]:
        """What the flows have in the target for themselves."""
        return [topic.format(alias=alias) for topic in _OWN_TOPICS for alias in self._cluster.aliases]

    @property
    def clients(self) -> list[tuple[str, object]]:
        """Those that stay, by name."""
        return [
            ("admin of the target", self.target),
            ("producer to the target", self.to_target),
        ]

    def nudge(self) -> None:
        """Have a record written to each topic of the flows' own, by which old segments are closed."""
        self.source.groups.commit(_NUDGED, {TopicPartition(READ, 0): self._ends_of_source()[0]})
        for alias in self._cluster.aliases:
            self.to_target.send(b"false", key=b"paused", topic=f"mm2-mirror.{alias}.internal")
        self.to_target.flush()

    def wait_until_copied(self) -> None:
        """Wait until each flow has copied the records that the source has by now."""
        ends = self._ends_of_source()
        for alias in self._cluster.aliases:
            self._wait_for(lambda: self._has_copied(alias, ends), f"the flow from {alias} to copy")  # noqa: B023

    def finish(self) -> None:
        """Take all topics to their end."""
        while self._coming:
            self._advance()

    # ---- units -----------------------------------------------------------------------------------------------------

    def copy_topic(self, number: str) -> None:
        """A topic and a group begin; those of the units before are taken further."""
        self._advance()
        topic = CopiedTopic(f"m-{number}", next(self._numbers) % 2 == 1, self._grow, {})
        self._create(topic)
        self.source.groups.commit(topic.name, {TopicPartition(topic.name, 0): 1, TopicPartition(READ, 0): 0})
        self._coming.append(topic)

    def pause(self) -> None:
        """A flow pauses and goes on."""
        with self._mirror() as mirror:
            flow = self._any_flow()
            mirror.pause(flow)
            mirror.resume(flow)

    def plan_failover(self) -> None:
        with self._mirror() as mirror:
            mirror.failover(self._any_flow(), dry_run=True)

    # ---- stages ----------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        for topic in list(self._coming):
            topic.advance(topic)

    def _create(self, topic: CopiedTopic, partitions: int = 1) -> None:
        policy = "compact" if topic.is_odd else "delete"
        self.source.topics.create(topic.name, partitions=partitions, config={"cleanup.policy": policy})
        for key in (b"first", _ABORTED, b"last"):  # of one key compaction might leave the last alone, uncopied
            now_ms = self._cluster.clock.wall_ms()  # retention might take what is older before it is copied
            with suppress(AbortedError), self._to_source.transaction() as transaction:
                transaction.send(b"value", key=key, topic=topic.name, partition=0, timestamp=now_ms)
                if key == _ABORTED:
                    self._to_source.flush()
                    raise AbortedError

    def _grow(self, topic: CopiedTopic) -> None:
        """It gets a partition more. An odd one is made anew; a copy that has the source's offsets is deleted for it."""
        self._wait_for(lambda: self._is_copied(topic), f"{topic.name} to be copied")
        self._wait_for(lambda: self._is_translated(topic), f"group {topic.name} to be translated")
        topic.ends = self._ends(topic)
        if topic.is_odd:
            self.source.topics.delete(topic.name)
            if (copy := f"same.{topic.name}") in topic.ends:
                self.target.topics.delete(copy)
                topic.ends = {**topic.ends, copy: 0}
            self._create(topic, partitions=2)
        else:
            self.source.topics.delete_records(topic.name)
            self.source.topics.add_partitions(topic.name, 2)
        topic.advance = self._end

    def _end(self, topic: CopiedTopic) -> None:
        """It is deleted on both sides. An odd one's group is deleted, too, and the others expire."""
        if topic.is_odd:
            self._wait_for(lambda: self._is_copied(topic), f"{topic.name} to be copied again")
            if self.source.groups.exists(topic.name):  # on a busy machine it may have expired by now
                self.source.groups.delete(topic.name)
        self.source.topics.delete(topic.name)
        self.target.topics.delete(*self._copies(topic), if_missing="ok")
        topic.advance = self._see_gone

    def _see_gone(self, topic: CopiedTopic) -> None:
        """A flow that looked at the source a moment before has created a copy again."""
        self.target.topics.delete(*self._copies(topic), if_missing="ok")
        self._coming.remove(topic)

    # ---- what is there ---------------------------------------------------------------------------------------------

    def _ends(self, topic: CopiedTopic) -> dict[str, int]:
        found = {}
        for copy in self._copies(topic):
            with suppress(ottla.UnknownTopicError):
                found[copy] = self.target.topics.offsets(copy)[0] or 0
        return found

    def _is_copied(self, topic: CopiedTopic) -> bool:
        ends = self._ends(topic)
        return all(ends.get(copy, 0) > topic.ends.get(copy, 0) for copy in self._copies(topic))

    def _is_translated(self, topic: CopiedTopic) -> bool:
        committed = self.target.groups.committed(topic.name, if_missing="ok")
        return {TopicPartition(copy, 0) for copy in self._copies(topic)} <= committed.keys()

    def _ends_of_source(self) -> Mapping[int, int]:
        return {number: end or 0 for number, end in self.source.topics.offsets(READ).items()}

    def _has_copied(self, alias: str, ends: Mapping[int, int]) -> bool:
        committed = self.target.groups.committed(f"ottla-mirror.{alias}.{TARGET}", if_missing="ok")
        return all(committed.get(TopicPartition(f"{alias}.{READ}", number), -1) >= end for number, end in ends.items())

    def _wait_for(self, condition: Callable[[], bool], purpose: str) -> None:
        """Raises REQUEST_TIMED_OUT, with what the mirrors say of their flows."""
        try:
            wait_for(condition, purpose, limit_s=LIMIT_S)
        except ottla.OttlaError as error:
            said = [
                flow
                for mirror in self._cluster.mirrors
                for flow in ottla.MirrorClient(mirror.address, request_timeout=LIMIT_S).flows()
            ]
            raise ottla.OttlaError(error.code, f"{error.message}; the mirrors say {said}") from error

    def _mirror(self) -> ottla.MirrorClient:
        return ottla.MirrorClient(self._chance.choice(self._cluster.mirrors).address, request_timeout=LIMIT_S)

    def _any_flow(self) -> str:
        return f"{self._chance.choice(self._cluster.aliases)}->{TARGET}"

    def _copies(self, topic: CopiedTopic) -> list[str]:
        return [f"{alias}.{topic.name}" for alias in self._cluster.aliases]
