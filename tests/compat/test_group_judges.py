"""`make compat CLIENTS=groups`: judges of the consumer protocol, run with Apache Kafka and with ottla, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from peers.kafka.server import KafkaServer
from tests.compat.cells import JUDGES_OF_GROUPS
from tests.compat.group_judges.comparison import KNOWN, compare
from tests.compat.group_judges.place import Facts, Place
from tests.compat.group_judges.suites import LIMIT_S, suites
from tests.compat.group_judges.tables import TABLES, Groups
from tests.compat.group_judges.verifiable import verifiable_consumer_alone, verifiable_consumers_together
from tests.compat.topics import Topics

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

JUDGES: dict[str, Callable[[Place], Facts]] = {
    "VerifiableConsumer": verifiable_consumer_alone,
    "two VerifiableConsumers": verifiable_consumers_together,
    **suites(),
}
_SETTINGS = {"num.partitions": 4, "group.consumer.heartbeat.interval.ms": 5_000}
"""Tests of librdkafka expect that topics that are created for them have several partitions.

librdkafka waits for the response to a heartbeat for one interval. With the short interval of ottla's clusters for
tests, a busy machine would change outcomes.
"""
_OF_KAFKA = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 5, **_SETTINGS}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with (
        KafkaServer(tmp_path_factory.mktemp("kafka") / "node", settings=_OF_KAFKA, heap="512m") as server,
        Topics(server.bootstrap) as topics,
    ):
        yield Place(server.bootstrap, topics)


@pytest.fixture(scope="module")
def ours(cluster: Cluster, topics: Topics) -> Place:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set(dict(_SETTINGS))
    return Place(cluster.bootstrap, topics)


@pytest.fixture(scope="module")
def groups_of_kafka(kafka: Place) -> Iterator[Groups]:
    groups = Groups(kafka)
    yield groups
    groups.close()


@pytest.fixture(scope="module")
def groups_of_ours(ours: Place) -> Iterator[Groups]:
    groups = Groups(ours)
    yield groups
    groups.close()


@pytest.mark.timeout(2 * LIMIT_S + 60)
@JUDGES_OF_GROUPS.cell
@pytest.mark.parametrize("judge", JUDGES)
def test_a_judge_finds_the_same_with_ottla_as_with_kafka(
    kafka: Place, ours: Place, judge: str, record_property: Callable[[str, object], None]
) -> None:
    compare(judge, JUDGES[judge](kafka), JUDGES[judge](ours), record_property)


@JUDGES_OF_GROUPS.cell
@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_the_same_with_ottla_as_with_kafka(
    groups_of_kafka: Groups, groups_of_ours: Groups, table: str, record_property: Callable[[str, object], None]
) -> None:
    theirs, own = groups_of_kafka.table(*TABLES[table]), groups_of_ours.table(*TABLES[table])
    compare(f"kafka-consumer-groups, {table}", {"rows": theirs}, {"rows": own}, record_property)


def test_each_known_difference_belongs_to_a_judge() -> None:
    judges = (*JUDGES, *(f"kafka-consumer-groups, {table}" for table in TABLES))
    assert [key for key in KNOWN if key.partition(": ")[0] not in judges] == []
