"""Groups of the consumer protocol (KIP-848), of unchanged clients: what they experience with ottla and with Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from peers.kafka.server import KafkaServer
from tests.compat.cells import each_consumer_story, opened
from tests.compat.clients import Listed
from tests.compat.consumer_group_stories import STORIES, ConsumerStage, Facts
from tests.compat.topics import Topics

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

AT_ONCE = 3
"""Stories that are told side by side: in each, most of the time is spent on waiting for the next heartbeat."""
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}
"""They change no outcome."""
_OF_KAFKA = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5, **QUICK}


Told = Mapping[tuple[str, str], Future[Facts]]
"""What each story of each client came to on one side, or why it came to nothing."""


@pytest.fixture(scope="module")
def at_kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Its JVM has ended when ottla's turn comes."""
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "node", settings=_OF_KAFKA, heap="512m") as server:
        return _told(request, server.bootstrap)


@pytest.fixture(scope="module")
def at_ottla(request: pytest.FixtureRequest, cluster: Cluster) -> Told:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set(dict(QUICK))
    return _told(request, cluster.bootstrap)


def _told(request: pytest.FixtureRequest, bootstrap: str) -> Told:
    """Have every story of this run told to its end."""
    wanted = [item.callspec.params for item in request.session.items if _is_story(item)]  # type: ignore[attr-defined]  # pytest's, without types
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {
            (params["story"], params["listed"].name): pool.submit(tell, bootstrap, params["story"], params["listed"])
            for params in wanted
        }


def tell(bootstrap: str, story: str, listed: Listed) -> Facts:
    client = opened(listed)
    with Topics(bootstrap) as topics, ConsumerStage(bootstrap, topics) as stage:
        return STORIES[story](stage, client)


def _is_story(item: pytest.Item) -> bool:
    return getattr(item, "function", None) is test_a_consumer_group


@each_consumer_story
def test_a_consumer_group(at_kafka: Told, at_ottla: Told, story: str, listed: Listed) -> None:
    assert at_ottla[story, listed.name].result() == at_kafka[story, listed.name].result()
