"""Admin tells what Kafka's messages lack: brokers add it in private fields."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator

import pytest
from waiting import LIMIT_S, wait_until

import ottla
from ottla.connect import PreparedTransaction
from ottla.errors import OttlaError
from ottla.testing import Cluster
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.compaction import Compaction
from ottla_broker.storage.log_dir import LogDir
from ottla_core.model import TopicPartition

WITHOUT_EFFECT = {"preallocate": "true"}

_names = (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, txn_coordinators=1) as running:
        yield running


@pytest.fixture
def name() -> str:
    return next(_names)


def test_configs_say_whether_they_are_enforced(admin: ottla.Admin) -> None:
    enforced = {config.enforced for config in admin.configs.get(broker=1).values()}
    assert enforced == {True, False}


def test_a_config_without_effect_is_warned_of(admin: ottla.Admin, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.admin")
    admin.topics.create(name, config=WITHOUT_EFFECT)
    admin.configs.set(WITHOUT_EFFECT, topic=name)
    warnings = [record.message for record in caplog.records if record.name == "ottla.admin"]
    assert len(warnings) == 2
    assert all("preallocate is stored; this release does not act on it yet" in warning for warning in warnings)


def test_log_directories_name_partitions_in_trouble(
    admin: ottla.Admin, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.topics.create(name, assignments={0: [0], 1: [0]})
    monkeypatch.setattr(Replica, "has_late_transaction", property(lambda replica: replica.id.partition == 1))
    monkeypatch.setattr(Compaction, "failure", property(lambda _: "a batch is damaged", lambda *_: None), raising=False)
    monkeypatch.setattr(LogDir, "has_all_of", lambda _, partition: partition.partition != 1)
    (found,) = admin.cluster.log_dirs(0)
    assert TopicPartition(name, 1) in found.late_transactions
    assert TopicPartition(name, 1) in found.incomplete
    assert TopicPartition(name, 0) not in found.incomplete
    assert found.uncleanable[TopicPartition(name, 0)] == "a batch is damaged"


def test_a_group_has_its_generation_leader_and_shard(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, partitions=2)
    cluster.produce(name, ["a", "b"])
    with ottla.Consumer(name, bootstrap=cluster.bootstrap, group=name, auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
        found = admin.groups.describe(name)
        assert (found.state, found.generation, found.leader) == ("Stable", 1, found.members[0].member_id)
        assert found.members[0].session_timeout > 0
        (listed,) = (group for group in admin.groups.list() if group.name == name)
        assert (listed.members, listed.shard, listed.coordinator) == (1, found.shard, found.coordinator)
        assert (found.shard >= 0, found.coordinator) == (True, 0)


def test_a_transaction_has_its_events_version_and_shard(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, partitions=2)
    with ottla.Producer(cluster.bootstrap, topic=name, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("x", partition=1).result(LIMIT_S)
            found = admin.transactions.describe(name)
            assert [event.kind for event in found.events] == ["initialized"]
            assert (found.version, found.updated_at is None, found.shard >= 0) == (2, False, True)
            (listed,) = admin.transactions.list(prefix=name)
            assert (listed.shard, listed.coordinator) == (found.shard, found.coordinator)
            (opened,) = (each for each in admin.transactions.open_in(name) if each.open)
            assert (opened.high_watermark, opened.last_stable_offset) == (1, 0)


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        (lambda admin, name: admin.topics.delete_records(name, {0: 99}), "99"),
        (lambda admin, name: admin.transactions.describe(name), "there is no transactional id"),
        (
            lambda admin, _: admin.transactions.end(PreparedTransaction("no-such-id", 1, 0), committed=True),
            "no-such-id",
        ),
        (lambda admin, name: admin.configs.set({"retention.ms": "soon"}, topic=name), "soon"),
        (lambda admin, name: admin.topics.create(f"{name}-2", replicas=9), "replication factor 9"),
    ],
)
def test_errors_have_the_words_of_the_services(
    admin: ottla.Admin, name: str, failing: Callable[[ottla.Admin, str], object], words: str
) -> None:
    admin.topics.create(name)
    with pytest.raises(OttlaError) as caught:
        failing(admin, name)
    assert words in caught.value.message


def test_errors_of_members_and_producers_do_too(cluster: Cluster, admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name)
    producer = ottla.Producer(cluster.bootstrap, transactional_id=name, transaction_timeout=10_000)
    with producer, pytest.raises(OttlaError, match="a transaction timeout of 10000000 ms is not allowed"):
        producer.init_transactions()
    consumer = ottla.Consumer(name, bootstrap=cluster.bootstrap, group=name, session_timeout=10_000)
    with consumer, pytest.raises(OttlaError, match="a session timeout of 10000000 ms is not allowed"):
        consumer.poll(LIMIT_S)


def test_the_cluster_has_the_controller_that_is_elected(admin: ottla.Admin) -> None:
    found = admin.cluster.describe()
    assert found.controller_epoch > 0
    assert [broker.address for broker in found.brokers] == [broker.kafka_address for broker in found.brokers]


def test_eligible_leaders(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    config = {"min.insync.replicas": 2}
    admin.topics.create(name, assignments={0: [0, 1], 1: [0, 1]}, config=config)
    cluster.brokers[1].stop()
    try:
        wait_until(lambda: all(partition.elr == (1,) for partition in admin.topics.describe(name)[0].partitions))
    finally:
        cluster.brokers[1].restart()
