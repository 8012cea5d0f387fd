"""Topics are deleted: every shard of the coordinator hears of it, until what was committed in them is out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from images import image_of, topic_id, with_topic
from waiting import until

from ottla_core.cluster.image import Change, ClusterImage, Topic
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.effects import loading, not_coordinator
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.errors import OttlaError
from ottla_core.model import PartitionId
from ottla_group_coordinator import deleted_topics
from ottla_group_coordinator.deleted_topics import DeletedTopics
from ottla_group_coordinator.machines.offsets import Topics
from ottla_group_coordinator.machines.shard import Loaded


class Held:
    """Shards that answer so, the last answer for ever; `forgotten` is what they were told, with its shard."""

    def __init__(self, *answers: Any, owned: tuple[int, ...] = (0, 3)) -> None:
        self.shards = owned
        self.forgotten: list[tuple[int, Topics, frozenset[str] | None]] = []
        self._answers = list(answers)

    def owned(self) -> tuple[int, ...]:
        return self.shards

    async def ask_shard(self, shard: int, decide: Any, *, timeout: float) -> Any:
        self._shard = shard
        return decide(self, Moment(0.0, 0)).response

    def forget_topics(self, topics: Topics, gone: frozenset[str] | None) -> ShardDecision[bool]:
        self.forgotten.append((self._shard, topics, gone))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OttlaError):
            raise answer
        return ShardDecision(answer)


class Store:
    """What the metadata store has; whoever asks while it is `away` has to ask again."""

    def __init__(self, image: ClusterImage, away: int = 0) -> None:
        self.image = image
        self.away = away

    async def catch_up(self, timeout: float) -> ClusterImage:
        if self.away:
            self.away -= 1
            raise StoreUnavailableError("nobody answers", indefinite=False)
        return self.image


def watching(shards: Any, metadata: Store) -> DeletedTopics:
    return DeletedTopics(shards, metadata)


@pytest.fixture(autouse=True)
def nobody_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_topics, "_PAUSE_S", 0.0)


EMPTY = replace(image_of(1), changed_partitions=None)  # as of a snapshot
WITH_T = with_topic(EMPTY, "t", 1, number=1)


@pytest.mark.parametrize("after", [EMPTY, with_topic(EMPTY, "t", 1, number=2)], ids=["gone", "another of its name"])
async def test_every_shard_forgets_a_topic_that_is_gone(after: Any) -> None:
    held = Held(True)
    before, after = with_topic(WITH_T, "u", 1, number=7), with_topic(after, "u", 1, number=7)
    watch = watching(held, Store(after))
    watch.on_image(before, replace(after, changed_partitions=None))
    await until(lambda: not watch._work._tasks)
    assert held.forgotten == [(n, after.topics, frozenset({"t"})) for n in (0, 3)]
    await watch.stop()


@pytest.mark.parametrize("new", [None, Topic("t", topic_id(2), 1)], ids=["gone", "another of its name"])
async def test_where_it_is_known_what_has_changed_that_topic_alone_is_looked_at(new: Topic | None) -> None:
    held = Held(True, owned=(0,))
    before = with_topic(WITH_T, "u", 1, number=7)
    after = before.with_changes([Change(("topic", "t"), new), Change(("topic", "v"), Topic("v", topic_id(8), 1))], 300)
    watch = watching(held, Store(after))
    watch.on_image(before, after)
    await until(lambda: not watch._work._tasks)
    assert held.forgotten == [(0, after.topics, frozenset({"t"}))]
    watch.on_image(WITH_T, replace(after, changed_partitions={PartitionId(topic_id(8), 0): None}))
    assert not watch._work._tasks
    await watch.stop()


@pytest.mark.story("offsets-of-a-deleted-topic-at-takeover")
async def test_a_shard_that_was_loaded_is_looked_through_by_metadata_that_is_not_behind() -> None:
    held = Held(True)
    watch = watching(held, Store(WITH_T, away=3))
    watch.on_effect(3, 1, "something else")
    watch.on_effect(3, 1, Loaded(0))
    await until(lambda: not watch._work._tasks)
    assert held.forgotten == [(3, WITH_T.topics, None)]
    await watch.stop()


async def test_a_topic_that_ends_while_its_shard_is_to_be_looked_through_narrows_nothing() -> None:
    held = Held(loading(), True, owned=(3,))
    watch = watching(held, Store(EMPTY))
    watch.on_effect(3, 1, Loaded(0))
    watch.on_image(WITH_T, EMPTY)
    await until(lambda: not watch._work._tasks)
    assert {gone for _, _, gone in held.forgotten} == {None}
    await watch.stop()


async def test_nothing_is_forgotten_for_a_new_topic() -> None:
    held = Held(True)
    watch = watching(held, Store(WITH_T))
    watch.on_image(EMPTY, WITH_T)
    watch.on_image(WITH_T, WITH_T)
    await watch.stop()
    assert held.forgotten == []


async def test_it_goes_on_until_all_is_out_and_the_shard_is_loaded() -> None:
    held = Held(loading(), False, loading(), False, True, owned=(0,))
    watch = watching(held, Store(EMPTY))
    watch.on_image(WITH_T, EMPTY)
    await until(lambda: not watch._work._tasks)
    assert [gone for _, _, gone in held.forgotten] == [frozenset({"t"})] * 5
    await watch.stop()


async def test_topics_that_end_one_after_the_other_are_looked_for_together() -> None:
    held = Held(True, owned=(0,))
    watch = watching(held, Store(EMPTY))
    for n in range(100):
        watch.on_image(with_topic(EMPTY, f"t{n}", 1), EMPTY)
    await until(lambda: not watch._work._tasks)
    assert [gone for _, _, gone in held.forgotten] == [frozenset(f"t{n}" for n in range(100))]
    watch.on_image(WITH_T, EMPTY)
    await until(lambda: not watch._work._tasks)
    assert held.forgotten[1:] == [(0, EMPTY.topics, frozenset({"t"}))]
    await watch.stop()


async def test_it_ends_where_another_owns_the_shard() -> None:
    held = Held(not_coordinator(), owned=(0,))
    watch = watching(held, Store(EMPTY))
    watch.on_image(WITH_T, EMPTY)
    await until(lambda: len(held.forgotten) > 2)
    held.shards = ()
    await until(lambda: not watch._work._tasks)
    await watch.stop()
