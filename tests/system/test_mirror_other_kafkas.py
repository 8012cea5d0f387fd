"""A mirror between clusters that serve it nothing but Kafka's own APIs, as any Kafka does.

Here that Kafka is ottla itself, whose brokers do not know that the client is ottla's. Apache Kafka is met by
tests/compat.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import urandom
from pathlib import Path

import pytest
from mirror_process import MirrorProcess
from mirrors import assert_exact, by_partition, copied, everything, mirrored, write_of_all_kinds, written
from waiting import wait_until

import ottla
from ottla.client.kafka import connection
from ottla.errors import ErrorCode
from ottla.testing import Cluster
from ottla_mirror.clusters.access import Access
from ottla_mirror.clusters.cluster import Cluster as MirroredCluster
from ottla_mirror.clusters.member import GroupEvents
from ottla_mirror.flow import Flow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


@pytest.fixture
def unknown_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this process have another name than ottla's, so brokers show them only what any Kafka has."""
    monkeypatch.setattr(connection, "_SOFTWARE", "tests")


def records_copied(flow: Flow) -> int:
    return sum(p.records for p in flow.partitions.values())


@pytest.mark.usefixtures("unknown_client")
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_records_are_copied_as_they_are_and_their_offsets_translate(
    cluster: Cluster, west: Cluster, topic: str, delivery: str
) -> None:
    count = write_of_all_kinds(cluster, topic)
    with mirrored(cluster, west, topic, delivery) as (flow,):
        wait_until(lambda: records_copied(flow) >= count)
        assert by_partition(copied(west, topic)) == written(cluster, topic)
        assert {p.error for p in flow.partitions.values()} == {""}
        with ottla.Admin(cluster.bootstrap) as admin:
            ends = admin.topics.offsets(topic, "latest")
        wait_until(lambda: {p.partition: at.offset for p, at in flow.positions().items()} == ends)
        flow.syncs.catch_up(10.0)
        assert_exact(flow.syncs, cluster, west, topic)


@pytest.mark.usefixtures("unknown_client")
def test_mirrors_share_the_work_and_go_on_where_others_stopped(cluster: Cluster, west: Cluster, topic: str) -> None:
    with mirrored(cluster, west, topic, "exactly_once", mirrors=2) as flows:
        wait_until(lambda: sum(len(flow.partitions) for flow in flows) == 2)
        wait_until(lambda: [flow.state.leads for flow in flows].count(True) == 1)
        cluster.produce(topic, [f"first {n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) >= 100)
        flows[0].stop()
        cluster.produce(topic, [f"second {n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) >= 200)
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        cluster.produce(topic, [f"third {n}" for n in range(100)])
        wait_until(lambda: records_copied(flow) >= 100)
        assert by_partition(copied(west, topic)) == written(cluster, topic)
        flow.syncs.catch_up(10.0)
        assert_exact(flow.syncs, cluster, west, topic)


@pytest.mark.usefixtures("unknown_client")
def test_topics_configs_and_groups_follow_and_a_topic_made_anew_is_another(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    name = f"{topic}-later"
    with (
        mirrored(cluster, west, name, "at_least_once") as (flow,),
        ottla.Admin(cluster.bootstrap) as admin,
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


@pytest.mark.usefixtures("unknown_client")
def test_a_copy_can_t_have_the_source_s_offsets_and_the_flow_says_what_to_do(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    cluster.produce(topic, ["a"])
    with mirrored(cluster, west, topic, "same_offsets") as (flow,):
        wait_until(lambda: "west is not an ottla cluster" in flow.trouble)
        assert 'use delivery = "exactly_once"' in flow.trouble
        assert ErrorCode.UNSUPPORTED_VERSION.name in flow.trouble


def test_a_copy_that_takes_small_batches_alone_gets_such(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin
) -> None:
    name = f"{topic}-small"
    admin.topics.create(name, partitions=1, config={"max.message.bytes": "100000"})
    cluster.produce(name, [urandom(1000).hex() for _ in range(2000)])
    with mirrored(cluster, west, name, "at_least_once") as (flow,):
        wait_until(lambda: len(copied(west, name)) == 2000)
        assert {p.error for p in flow.partitions.values()} == {""}


def test_a_member_that_was_evicted_commits_nothing_before_it_has_joined_anew(west: Cluster, topic: str) -> None:
    """It has no name then; without a generation either, its offsets would pass for those of one outside the group."""
    group, given = f"g-{topic}", list[ottla.TopicPartition]()
    events = GroupEvents(lambda _, copies: given.extend(copies), lambda _, lost: None)
    target = MirroredCluster(Access([west.bootstrap]))
    with (
        ottla.Admin(west.bootstrap) as admin,
        target.open_writer(topic, transactional_id=topic) as writer,
        target.open_member(topic, group, topic, 6.0, events) as member,
    ):
        writer.init_transactions()
        admin.topics.create(topic, partitions=1)
        wait_until(lambda: member.poll(0.1) or given)
        offsets = {given[0]: ottla.OffsetAndMetadata(5)}
        with writer.transaction():
            writer.send_offsets(offsets, member)
        admin.groups.kick(group, member.consumer.group_metadata.member_id)
        transaction = writer.transaction()
        with pytest.raises(ottla.OttlaError), transaction:
            writer.send_offsets({given[0]: ottla.OffsetAndMetadata(7)}, member)
        assert transaction.aborted
        assert admin.groups.committed(group) == {given[0]: 5}


def test_a_mirror_whose_file_names_the_kind_of_a_cluster_goes_on_after_a_kill(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.produce(topic, [str(n) for n in range(100)])
    with MirrorProcess(tmp_path, f"kafka://{cluster.bootstrap}", west.bootstrap, topic) as mirror:
        wait_until(lambda: sum(p.records for p in mirror.flow().partitions) == 100)
        wait_until(lambda: [p.lag for p in mirror.flow().partitions if p.lag is not None] == [0, 0])
        assert all(check.is_good for check in mirror.client.verify("east->west"))
        mirror.kill()
        cluster.produce(topic, [str(n) for n in range(100, 200)])
        mirror.start()
        wait_until(lambda: len({record.value for record in copied(west, topic)}) == 200)
