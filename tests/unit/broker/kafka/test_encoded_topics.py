"""Topics are encoded once for all who request them, and again only when they have changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.handlers import metadata
from ottla_broker.kafka.wire import encoded_topics
from ottla_broker.kafka.wire.encoded_topics import ENTRY_BYTES, EncodedTopics
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.kafka.wire.metadata import Terms, write_partition
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import Broker, Change, ClusterImage, Partition, Topic
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId, TopicId

EVERY = frozenset({0, 1, 2})
TERMS = Terms(12, operations=False, live=EVERY, unreachable=frozenset())
VERSION = 12


def put(number: int, partitions: int, leader: int = 0, epoch: int = 0) -> list[Change]:
    topic_id = TopicId(number.to_bytes(16, "big"))
    partition = Partition((0, 1, 2), leader, epoch, (0, 1, 2))
    of_partitions = [Change(("partition", PartitionId(topic_id, n)), partition) for n in range(partitions)]
    return [*of_partitions, Change(("topic", f"t{number}"), Topic(f"t{number}", topic_id, partitions))]


def led(image: ClusterImage, number: int, leader: int) -> ClusterImage:
    """Partition 0 of topic `number` has another leader, in its next epoch."""
    id_ = PartitionId(TopicId(number.to_bytes(16, "big")), 0)
    before = image.partitions[id_]
    changed = replace(before, leader=leader, leader_epoch=before.leader_epoch + 1)
    return image.with_changes([Change(("partition", id_), changed)], image.revision + 1)


def image_with(*partitions: int) -> ClusterImage:
    """Three brokers, and topics t1, t2, … of so many partitions."""
    changes = [
        Change(("broker", n), Broker(n, 1, "d", "h:1", kafka_address=f"h:{n + 1}", fenced=False)) for n in range(3)
    ]
    changes += (change for number, count in enumerate(partitions, 1) for change in put(number, count))
    return ClusterImage("c").with_changes(changes, 10)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that were encoded."""
    numbers: list[int] = []

    def counted(terms: Terms, number: int, partition: Partition) -> bytes:
        numbers.append(number)
        return write_partition(terms, number, partition)

    monkeypatch.setattr(encoded_topics, "write_partition", counted)
    return numbers


class Backend:
    """A broker in the cluster that `image` shows."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.node_id = 0
        self.addresses = KafkaAddresses("h", "", [])
        self.topics = EncodedTopics()
        self.threads = DiskThreads()

    async def answer(self, *names: str) -> Any:
        """To a request of these topics; all where none is named."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted or None, allow_auto_topic_creation=False)
        context = KafkaContext(VERSION, 1, "", Reader(memoryview(b"")), Caller("", ""))
        backend: Any = self
        response = await metadata.handle(backend, request, context)
        return MetadataResponse.decode(b"".join(response), version=VERSION)


def epochs(answer: Any) -> dict[str, int]:
    return {topic.name: topic.partitions[0].leader_epoch for topic in answer.topics}


async def test_only_what_changed_is_encoded_again(written: list[int]) -> None:
    image, kept = image_with(2, 3, 4), EncodedTopics()
    first = await kept.encode(image, image.topics.values(), TERMS)
    assert len(written) == 9
    again = await kept.encode(image, image.topics.values(), TERMS)
    assert (len(written), [a is b for a, b in zip(first, again, strict=True)]) == (9, [True] * 3)
    image = led(image, 2, leader=1)
    changed = await kept.encode(image, image.topics.values(), TERMS)
    assert (len(written), [a is b for a, b in zip(first, changed, strict=True)]) == (12, [True, False, True])
    image = image.with_changes([Change(("broker", 2), replace(image.brokers[2], rack="r"))], image.revision + 1)
    await kept.all(image, TERMS, image.topics_revision)
    await kept.all(image, TERMS, image.topics_revision)
    assert len(written) == 12


@pytest.mark.parametrize("max_bytes", [10**6, 2_000, 1])
async def test_what_is_kept_is_what_would_be_encoded_now(max_bytes: int) -> None:
    """Topics are deleted, recreated and led by other brokers, and old images and other terms are requested."""
    random, image, kept = Random(3), image_with(1, 2), EncodedTopics(max_bytes)
    images = [image]
    for revision in range(11, 250):
        number, topic_id = random.randrange(1, 5), TopicId(random.randbytes(16))
        changes = random.choice(
            [
                [Change(("topic", f"t{number}"), None)],
                put(number, random.randrange(1, 4), epoch=revision),
                [Change(("topic", f"t{number}"), Topic(f"t{number}", topic_id, 1)), *put(number, 1)[:1]],
                [Change(("broker", 1), Broker(1, revision, "d", "h:1"))],
            ]
        )
        changes += [
            Change(("partition", PartitionId(topic_id, 0)), Partition((1,), 1, revision, (1,))),
        ]
        image = image.with_changes(changes, revision)
        images.append(image)
        terms = TERMS._replace(live=random.choice([EVERY, EVERY - {1}]), operations=random.random() < 0.5)
        old = random.choice(images[-3:])
        for seen in (old, image):
            parts = await kept.encode(seen, seen.topics.values(), terms)
            assert parts == await EncodedTopics().encode(seen, seen.topics.values(), terms)
        assert await kept.all(image, terms, image.topics_revision) == (len(parts), b"".join(parts))
        entries = [entry for of_terms in kept._kept.values() for entry in of_terms.values()]
        assert kept.held_bytes == sum(len(entry.data) + ENTRY_BYTES for entry in entries)
        assert kept.held_bytes <= max_bytes or len(entries) == 1


async def test_deleted_topics_are_forgotten_once_they_are_as_many_as_the_others() -> None:
    image, kept = image_with(1, 1, 1), EncodedTopics()
    for number in range(4, 50):
        image = image.with_changes(put(number, 1), image.revision + 1)
        await kept.encode(image, image.topics.values(), TERMS)
        image = image.with_changes([Change(("topic", f"t{number}"), None)], image.revision + 1)
        assert len(kept._kept[TERMS]) <= 2 * (len(image.topics) + 3)
    await kept.encode(image, image.topics.values(), TERMS)
    assert kept.held_bytes == sum(len(entry.data) + ENTRY_BYTES for entry in kept._kept[TERMS].values())


async def test_a_hundred_who_request_all_at_once_have_it_encoded_once(written: list[int]) -> None:
    backend = Backend(image_with(*[5] * 200))
    answers = await asyncio.gather(*(backend.answer() for _ in range(100)))
    assert len(written) == 1_000
    assert all(answer.topics == answers[0].topics for answer in answers)
    assert len(answers[0].topics) == 200


async def test_who_wait_share_an_answer_that_is_as_new_as_their_requests(written: list[int]) -> None:
    """While leaders change all the time: each has what there was when its request came, and few images are encoded."""
    backend, known = Backend(image_with(1_000)), {}
    resting: Any = SimpleNamespace(rest=lambda: asyncio.sleep(0))
    backend.topics._slice = resting

    async def change() -> None:
        while True:
            backend.image = led(backend.image, 1, leader=1)
            await asyncio.sleep(0)

    async def request(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)
        least = backend.image.partitions[PartitionId(TopicId((1).to_bytes(16, "big")), 0)].leader_epoch
        known[number] = (least, epochs(await backend.answer())["t1"])

    changing = asyncio.create_task(change())
    await asyncio.gather(*(request(number) for number in range(40)))
    changing.cancel()
    assert len(known) == 40
    assert all(epoch >= least for least, epoch in known.values())
    assert len(written) < 20 * 1_000


@contextlib.contextmanager
def turns() -> Iterator[list[int]]:
    counted = [0]

    async def count() -> None:
        while True:
            counted[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    yield counted
    counting.cancel()


@pytest.mark.parametrize("partitions", [[20_000], [2] * 5_000])
async def test_others_have_their_turns_meanwhile(partitions: list[int]) -> None:
    backend = Backend(image_with(1, *partitions))
    with turns() as counted:
        answering = asyncio.create_task(backend.answer())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        before = counted[0]
        assert len((await backend.answer("t1")).topics) == 1
        assert (counted[0] - before, answering.done()) == (0, False), "a request of little waits for nothing"
        await answering
    assert counted[0] > 4, "the answer rests after slices of time, so a fast Python needs fewer"


async def test_one_whose_client_has_gone_leaves_the_turn_to_the_next() -> None:
    backend = Backend(image_with(*[100] * 100))
    answering = [asyncio.create_task(backend.answer()) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for gone in answering[:2]:
        gone.cancel()
    assert len((await answering[2]).topics) == 100
    assert [task.cancelled() for task in answering] == [True, True, False]


async def test_many_named_topics_are_found_beside_the_loop() -> None:
    backend = Backend(image_with(*[1] * 600))
    names = [*(f"t{n}" for n in range(1, 601)), "missing", "t1"]
    answer = await backend.answer(*names)
    assert [topic.name for topic in answer.topics] == names[:-1]
    await backend.threads.stop()
