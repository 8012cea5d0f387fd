"""Our consumer beside Kafka's own: the same steps on the same topic, and the same outcome of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from peers.java.consumers import JavaConsumers
from peers.java.driver import java_client
from tests.compat.cells import JUDGED
from tests.compat.judges.departures import DEPARTURES, unlisted
from tests.compat.judges.java import JavaSide
from tests.compat.judges.living import live
from tests.compat.judges.sdk import SdkSide
from tests.compat.judges.stories import STORIES
from tests.compat.judges.story import Story
from tests.compat.judges.world import World

import ottla
from ottla_stack.cluster import Cluster


@pytest.fixture(scope="module")
def java() -> Iterator[JavaConsumers]:
    with JavaConsumers(java_client().program("consumers")) as consumers:
        yield consumers


@pytest.fixture(scope="module", autouse=True)
def quick_cleaner(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"log.cleaner.backoff.ms": 100})


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, id=story.name, marks=pytest.mark.cell(capability, "java"))
        for capability in JUDGED
        for story in STORIES[capability]
    ],
)
def test_our_consumer_does_what_javas_does(java: JavaConsumers, cluster: Cluster, story: Story) -> None:
    topic = "judged-" + "".join(letter if letter.isalnum() else "-" for letter in story.name)
    theirs = JavaSide(java, cluster.bootstrap, topic, f"{topic}-theirs")
    ours = SdkSide(cluster.bootstrap, topic, f"{topic}-ours")
    groups = [f"{topic}-theirs", f"{topic}-ours"]
    with World(cluster, topic, partitions=story.partitions, config=story.config, groups=groups) as world:
        try:
            facts = live(story, world, theirs, ours)
        finally:
            theirs.close()
            ours.close()
    wrong = unlisted(facts, DEPARTURES)
    assert not wrong, "\n".join(wrong)
