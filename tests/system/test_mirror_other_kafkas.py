"""The mirror between clusters of which one, or both, are no ottla clusters: they are met as any Kafka is.

Here that Kafka is ottla's own listener; Kafka itself is met by tests/compat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from os import urandom
from pathlib import Path

import pytest
from mirror_process import MirrorProcess
from mirrors import assert_exact, by_partition, copied, everything, mirrored, write_of_all_kinds, written
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_mirror.clusters.cluster import GroupEvents
from ottla_mirror.clusters.kafka.kafka_member import KafkaMember
from ottla_mirror.clusters.kafka.kafka_writer import KafkaWriter
from ottla_mirror.flow import Flow

EACH_WAY = pytest.mark.parametrize("kafka", [("east",), ("west",), ("east", "west")], ids="+".join)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


def records_copied(flow: Flow) -> int:
    return sum(p.records for p in flow.partitions.values())


@EACH_WAY
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_records_are_copied_as_they_are_and_their_offsets_translate(
    cluster: Cluster, west: Cluster, topic: str, delivery: str, kafka: Sequence[str]
) -> None:
    count = write_of_all_kinds(cluster, topic)
    with mirrored(cluster, west, topic, delivery, kafka=kafka) as (flow,):
        wait_until(lambda: records_copied(flow) >= count)
        assert by_partition(copied(west, topic)) == written(cluster, topic)
        assert {p.error for p in flow.partitions.values()} == {""}
        with ottla.Admin(cluster.bootstrap) as admin:
            ends = admin.topics.offsets(topic, "latest")
        wait_until(lambda: {p.partition: at.offset for p, at in flow.positions().items()} == ends)
        flow.syncs.catch_up(10.0)
        assert_exact(flow.syncs, cluster, west, topic)


@EACH_WAY
def test_mirrors_share_the_work_and_go_on_where_others_stopped(
    cluster: Cluster, west: Cluster, topic: str, kafka: Sequence[str]
) -> None:
    with mirrored(cluster, west, topic, "exactly_once", mirrors=2, kafka=kafka) as flows:
        wait_until(lambda: sum(len(flow.partitions) for flow in flows) == 2)
        wait_until(lambda: [flow.state.leads for flow in flows].count(True) == 1)
        cluster.produce(topic, [f"first {n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) >= 100)
        flows[0].stop()
        cluster.produce(topic, [f"second {n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) >= 200)
    with mirrored(cluster, west, topic, "exactly_once", kafka=kafka) as (flow,):
        cluster.produce(topic, [f"third {n}" for n in range(100)])
        wait_until(lambda: records_copied(flow) >= 100)
        assert by_partition(copied(west, topic)) == written(cluster, topic)
        flow.syncs.catch_up(10.0)
        assert_exact(flow.syncs, cluster, west, topic)


@EACH_WAY
def test_topics_configs_and_groups_follow_and_a_topic_made_anew_is_another(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, kafka: Sequence[str]
) -> None:
    name = f"{topic}-later"
    with (
        mirrored(cluster, west, name, "at_least_once", kafka=kafka) as (flow,),
        ottla.Admin(west.bootstrap) as target,
    ):
        admin.topics.create(name, partitions=1, config={"retention.ms": "1h"})
        cluster.produce(name, [f"former {n}" for n in range(20)])
        wait_until(lambda: len(copied(west, name)) == 20)
        assert target.configs.get(topic=f"east.{name}")["retention.ms"].value == "3600000"
        admin.groups.commit(f"g-{topic}", {ottla.TopicPartition(name, 0): 7})
        copy = ottla.TopicPartition(f"east.{name}", 0)
        wait_until(lambda: target.groups.exists(f"g-{topic}") and target.groups.committed(f"g-{topic}") == {copy: 7})
        admin.topics.add_partitions(name, 2)
        with ottla.Producer(cluster.bootstrap, topic=name) as producer:
            wait_until(lambda: producer.partitions_now(name) == 2)
            producer.send("grown", partition=1)
        wait_until(lambda: len(copied(west, name)) == 21)
        admin.topics.delete(name)
        wait_until(lambda: not admin.topics.exists(name))
        admin.topics.create(name, partitions=1)
        cluster.produce(name, [f"anew {n}" for n in range(5)])
        wait_until(lambda: len(copied(west, name)) == 26)
        wait_until(lambda: flow.trouble == "")
        wait_until(lambda: len({record.value for record in everything(west, f"east.{name}")}) == 26)


def test_a_copy_that_takes_small_batches_alone_gets_such(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin
) -> None:
    name = f"{topic}-small"
    admin.topics.create(name, partitions=1, config={"max.message.bytes": "100000"})
    cluster.produce(name, [urandom(1000).hex() for _ in range(2000)])
    with mirrored(cluster, west, name, "at_least_once", kafka=("west",)) as (flow,):
        wait_until(lambda: len(copied(west, name)) == 2000)
        assert {p.error for p in flow.partitions.values()} == {""}


def test_a_member_that_was_evicted_commits_nothing_before_it_has_joined_anew(west: Cluster, topic: str) -> None:
    """It has no name then; without a generation either, its offsets would pass for those of one outside the group."""
    group, given = f"g-{topic}", list[ottla.TopicPartition]()
    settings = {"bootstrap.servers": west.bootstrap, "client.id": topic, "log_level": 0}
    events = GroupEvents(lambda _, copies: given.extend(copies), lambda _, lost: None)
    member, writer = KafkaMember(settings, group, topic, 6.0, events), KafkaWriter(settings, topic, 30.0)
    writer.init_transactions()
    with ottla.Admin(west.bootstrap) as admin, closing(member), closing(writer):
        admin.topics.create(topic, partitions=1)
        wait_until(lambda: member.poll(0.1) or given)
        offsets = {given[0]: ottla.OffsetAndMetadata(5)}
        with writer.transaction():
            writer.send_offsets(offsets, member)
        before = member._consumer.memberid()
        admin.groups.kick(group, before)
        wait_until(lambda: member._consumer.memberid() != before)
        transaction = writer.transaction()
        with pytest.raises(ottla.OttlaError), transaction:
            writer.send_offsets({given[0]: ottla.OffsetAndMetadata(7)}, member)
        assert transaction.aborted
        assert admin.groups.committed(group) == {given[0]: 5}


def test_a_mirror_of_another_kafka_by_its_file_is_verified_by_other_means(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.produce(topic, [str(n) for n in range(100)])
    with MirrorProcess(tmp_path, f"kafka://{cluster.bootstrap}", west.bootstrap, topic) as mirror:
        wait_until(lambda: sum(p.records for p in mirror.flow().partitions) == 100)
        wait_until(lambda: [p.lag for p in mirror.flow().partitions if p.lag is not None] == [0, 0])
        with pytest.raises(ottla.ConfigError, match="is not an ottla cluster"):
            mirror.client.verify("east->west")
        mirror.kill()
        cluster.produce(topic, [str(n) for n in range(100, 200)])
        mirror.start()
        wait_until(lambda: len({record.value for record in copied(west, topic)}) == 200)
