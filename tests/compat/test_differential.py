"""What clients experience with Apache Kafka and with ottla, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from peers.kafka.server import KafkaServer
from tests.compat.cells import DIFFERS
from tests.compat.differential.known import KNOWN
from tests.compat.differential.stories import STORIES
from tests.compat.differential.story import Side, Story, differences, outdated, unexplained

from ottla_stack.cluster import Cluster

_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
}
"""They change no outcome: stories wait less, and a small heap is enough."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "node", settings=_SETTINGS, heap="512m") as server:
        side = Side("Kafka", server.bootstrap)
        side.warm()
        yield side


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Side:
    side = Side("ottla", cluster.bootstrap)
    side.warm()
    return side


@DIFFERS.cell
@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_a_client_experiences_what_it_does_with_kafka(
    kafka: Side, ours: Side, story: Story, record_property: Callable[[str, object], None]
) -> None:
    found = differences(story.name, story.live(kafka), story.live(ours))
    for each in found:
        record_property("differs", each.key)
    assert not unexplained(found, KNOWN), "a difference that differential/known.py has no reason for"
    assert not outdated(story.name, found, KNOWN), "differential/known.py explains what is no difference any more"


def test_each_known_difference_is_of_a_story() -> None:
    names = tuple(f"{story.name}: " for story in STORIES)
    assert [key for key in KNOWN if not key.startswith(names)] == []
