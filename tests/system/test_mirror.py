"""The mirror between two clusters: what is written to one is in the other, once and in order, and offsets translate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirror_process import MirrorProcess
from mirrors import assert_exact, by_partition, copied, everything, mirrored, write_of_all_kinds, written
from scraped import scraped
from waiting import wait_until

import ottla
import ottla.aio
from ottla.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


@pytest.mark.feature(151)
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once", "same_offsets"])
def test_records_of_all_codecs_and_transactions_are_copied_as_they_are(
    cluster: Cluster, west: Cluster, topic: str, delivery: str
) -> None:
    count = write_of_all_kinds(cluster, topic)
    expected = written(cluster, topic)
    with mirrored(cluster, west, topic, delivery) as (flow,):
        wait_until(lambda: sum(p.records for p in flow.partitions.values()) >= count)
        assert by_partition(copied(west, topic)) == expected
        assert {p.error for p in flow.partitions.values()} == {""}
    with ottla.Admin(west.bootstrap) as admin:
        committed = admin.groups.committed("ottla-mirror.east.west")
        with ottla.Admin(cluster.bootstrap) as source:
            ends = source.topics.offsets(topic, "latest")
    positions = {p.partition: offset for p, offset in committed.items() if p.topic == f"east.{topic}"}
    assert positions == ends, "the group has where the source is to be read on"


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once", "same_offsets"])
def test_each_offset_of_the_source_translates_to_its_record(
    cluster: Cluster, west: Cluster, topic: str, delivery: str
) -> None:
    with ottla.Producer(cluster.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        for number in range(20):
            with producer.transaction() as transaction:
                for n in range(number % 4 + 1):
                    transaction.send(f"{number}.{n}", partition=0)
    count = sum(number % 4 + 1 for number in range(20))
    with mirrored(cluster, west, topic, delivery) as (flow,):
        wait_until(lambda: sum(p.records for p in flow.partitions.values()) >= count)
        offsets, partition = flow.syncs, ottla.TopicPartition(topic, 0)
        with ottla.Admin(cluster.bootstrap) as source:
            ends = source.topics.offsets(topic, "latest")
        wait_until(lambda: offsets.end(partition) + 1 == ends[0])  # a marker is the last
    assert_exact(offsets, cluster, west, topic)


def test_a_mirror_that_is_to_copy_acls_copies_records_between_clusters_without_an_authorizer(
    cluster: Cluster, west: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.mirror")
    cluster.produce(topic, range(10))
    with mirrored(cluster, west, topic, "at_least_once", sync_acls=True, sync_acls_interval_s=1) as (flow,):
        words = "flow east->west: no ACLs are copied, because {} has no authorizer"
        wait_until(lambda: {words.format("east"), words.format("west")} <= set(caplog.messages))
        wait_until(lambda: len(copied(west, topic)) == 10)
        assert flow.trouble == ""


@pytest.mark.feature(151)
def test_another_mirror_goes_on_where_the_last_one_stopped(cluster: Cluster, west: Cluster, topic: str) -> None:
    cluster.produce(topic, [f"first {n}" for n in range(300)])
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        wait_until(lambda: sum(p.records for p in flow.partitions.values()) >= 300)
    cluster.produce(topic, [f"second {n}" for n in range(300)])
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        wait_until(lambda: sum(p.records for p in flow.partitions.values()) >= 300)
        wait_until(lambda: len(copied(west, topic)) >= 600)
        wait_until(lambda: sum(flow.syncs.end(p) for p in flow.partitions) >= 600)
        assert_exact(flow.syncs, cluster, west, topic)
    assert by_partition(copied(west, topic)) == written(cluster, topic)


def test_mirrors_share_the_partitions_and_one_of_them_leads(cluster: Cluster, west: Cluster, topic: str) -> None:
    with mirrored(cluster, west, topic, "exactly_once", mirrors=2) as flows:
        wait_until(lambda: sum(len(flow.partitions) for flow in flows) == 2)
        wait_until(lambda: [flow.state.leads for flow in flows].count(True) == 1)
        for number in range(5):
            cluster.produce(topic, [f"{number}.{n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) >= 500)
        flows[0].stop()
        flow = flows[1]
        cluster.produce(topic, [f"later {n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) >= 600)
        wait_until(lambda: sum(flow.syncs.end(p) for p in flow.partitions) >= 600)
        assert_exact(flow.syncs, cluster, west, topic)
    assert by_partition(copied(west, topic)) == written(cluster, topic)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_mirrors_share_the_load(cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, delivery: str) -> None:
    """What two partitions of one mirror get is much; those of the other one get nothing."""
    admin.topics.add_partitions(topic, 4)
    with (
        mirrored(cluster, west, topic, delivery, mirrors=2, balance_s=2.0) as flows,
        ottla.Producer(cluster.bootstrap, topic=topic) as producer,
    ):
        wait_until(lambda: sum(len(flow.partitions) for flow in flows) == 4)
        busy, count = max((sorted(flow.partitions) for flow in flows), key=len)[:2], 0

        def share() -> list[int]:
            nonlocal count
            for n in range(count, count + 50):
                for partition in busy:
                    producer.send(f"{partition.partition}.{n}", partition=partition.partition)
            count += 50
            return [len(set(flow.partitions) & set(busy)) for flow in flows]

        wait_until(lambda: share() == [1, 1])
        producer.flush()
        wait_until(lambda: len(copied(west, topic)) >= 2 * count)
        partitions = [ottla.TopicPartition(topic, n) for n in range(4)]
        wait_until(lambda: sorted(p for flow in flows for p in flow.partitions) == partitions)
    values = [record.value for record in copied(west, topic)]
    assert len(set(values)) == 2 * count
    assert delivery == "at_least_once" or len(values) == 2 * count


@pytest.mark.feature(157)
def test_a_mirror_that_stands_by_the_target_has_lost_nothing_when_the_way_to_the_source_breaks(
    cluster: Cluster, west: Cluster, topic: str
) -> None:
    """Remote is what it reads from: that is still there when it can be reached again."""
    cluster.produce(topic, [f"before {n}" for n in range(100)])
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        wait_until(lambda: len(copied(west, topic)) == 100)
        cluster.brokers[0].kill()
        assert len(copied(west, topic)) == 100, "readers of the copy go on"
        cluster.brokers[0].restart()
        cluster.produce(topic, [f"after {n}" for n in range(100)])
        wait_until(lambda: len(copied(west, topic)) == 200)
        wait_until(lambda: not flow.trouble)
    assert by_partition(copied(west, topic)) == written(cluster, topic)


@pytest.mark.feature(158)
def test_the_way_between_sites_carries_each_event_once_and_compressed_however_many_read_the_copy(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin
) -> None:
    events, readers, not_copied = [f"an event, as all the others but for {n}" for n in range(5000)], 3, f"{topic}-here"
    admin.topics.create(not_copied, partitions=1)
    for name in (topic, not_copied):
        cluster.produce(name, events, compression="zstd")
    with mirrored(cluster, west, topic, "exactly_once") as (flow,):
        wait_until(lambda: sum(p.records for p in flow.partitions.values()) == len(events))
        for _ in range(readers):
            assert len(copied(west, topic)) == len(events)
    here, there = scraped(cluster), scraped(west)
    size = here["ottla_topic_bytes_in_total", topic]
    assert size < sum(map(len, events)) / 4
    assert here["ottla_topic_bytes_out_total", topic] == size
    assert here.get(("ottla_topic_bytes_out_total", not_copied), 0) == 0
    assert there["ottla_topic_bytes_in_total", f"east.{topic}"] >= size, "with what ends transactions"
    assert there["ottla_topic_bytes_in_total", f"east.{topic}"] < 1.1 * size
    assert there["ottla_topic_bytes_out_total", f"east.{topic}"] >= readers * size


def test_topics_that_come_later_their_growth_and_their_configs_follow(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin
) -> None:
    with mirrored(cluster, west, f"{topic}-later", "at_least_once"), ottla.Admin(west.bootstrap) as target:
        admin.topics.create(f"{topic}-later", partitions=1, config={"retention.ms": "1h", "min.insync.replicas": 1})
        cluster.produce(f"{topic}-later", ["a"])
        wait_until(lambda: len(copied(west, f"{topic}-later")) == 1)
        admin.topics.add_partitions(f"{topic}-later", 3)
        with ottla.Producer(cluster.bootstrap, topic=f"{topic}-later") as producer:
            wait_until(lambda: producer.partitions_now(f"{topic}-later") == 3)
            producer.send("b", partition=2)
        wait_until(lambda: len(copied(west, f"{topic}-later")) == 2)
        admin.configs.set({"retention.ms": "2h"}, topic=f"{topic}-later")

        def retention() -> str:
            return target.configs.get(topic=f"east.{topic}-later")["retention.ms"].value

        wait_until(lambda: retention() == "7200000")


def test_a_mirror_is_a_service_by_its_file_and_its_contract(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path
) -> None:
    cluster.produce(topic, [str(n) for n in range(100)])
    with MirrorProcess(tmp_path, cluster.bootstrap, west.bootstrap, topic) as mirror:
        wait_until(lambda: sum(p.records for p in mirror.flow().partitions) == 100)
        flow = mirror.flow()
        assert (flow.name, flow.trouble, flow.leads) == ("east->west", "", True)
        partitions = {p.partition: p for p in flow.partitions}
        assert {p.copy for p in partitions.values()} == {f"east.{topic}"}
        assert sum(p.position for p in partitions.values()) == 100
        wait_until(lambda: [p.lag for p in mirror.flow().partitions if p.lag is not None] == [0, 0])
        number, end = max(((p.partition, p.position or 0) for p in partitions.values()), key=lambda at: at[1])
        wait_until(lambda: not mirror.translate(topic, number, end)[0].error.code)
        (half, whole) = mirror.translate(topic, number, end // 2, end)
        assert (half.copy, half.partition, half.offset, whole.offset) == (f"east.{topic}", number, end // 2, end)
        assert mirror.metrics()[f'ottla_mirror_lag_records{{flow="east->west",partition="0",topic="{topic}"}}'] == 0.0
        status = mirror.cli("status", "east->west")
        assert {(p["copy"], p["lag"], p["trouble"]) for p in status} == {(f"east.{topic}", 0, "")}
        assert sum(p["records"] for p in status) == 100
        watched = mirror.cli("watch", "--every", "0.1s", "-n", "2")
        assert [line["copy"] for line in watched] == [f"east.{topic}"] * 4
        assert {line["records_s"] for line in watched} == {0}, "nothing is written now"
        (line,) = mirror.cli("translate", "east->west", topic, str(number), str(end))
        assert line == {"source_offset": end, "copy": f"east.{topic}", "partition": number, "offset": end}
        use_as_a_program(mirror, ottla.TopicPartition(topic, number), end)
        mirror.terminate()
    assert by_partition(copied(west, topic)) == written(cluster, topic)


def use_as_a_program(mirror: MirrorProcess, partition: ottla.TopicPartition, end: int) -> None:
    """The same through the SDK, in both worlds."""
    copy = ottla.TopicPartition(f"east.{partition.topic}", partition.partition)
    assert mirror.client.translate("east->west", {partition: end}) == {copy: end}
    with pytest.raises(ottla.UnknownTopicError, match="is not copied"):
        mirror.client.translate("east->west", {ottla.TopicPartition("nothing", 0): 1})
    with pytest.raises(ottla.FatalError, match="there is no flow 'a->b'"):
        mirror.client.flow("a->b")
    mirror.client.pause("east->west")
    (trouble,) = mirror.client.flow("east->west").troubles()
    assert "is paused" in trouble
    mirror.client.resume("east->west")
    wait_until(lambda: [p.position is None for p in mirror.client.flow("east->west").partitions] == [False, False])
    checks = mirror.client.verify("east->west", [partition.topic])
    assert [check.is_good for check in checks] == [True, True]
    assert sum(check.compared for check in checks) == 100

    async def lags() -> list[int | None]:
        async with ottla.aio.MirrorClient(mirror.address) as client:
            (flow,) = await client.flows()
            return [p.lag for p in flow.partitions]

    wait_until(lambda: asyncio.run(lags()) == [0, 0])


def test_a_copy_is_verified_record_by_record_and_planted_faults_are_found(
    cluster: Cluster, west: Cluster, topic: str, tmp_path: Path
) -> None:
    with ottla.Producer(cluster.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        for number in range(12):
            with producer.transaction() as transaction:
                for n in range(10):
                    transaction.send(f"{number}.{n}", key=b"k", partition=number % 2)
    state, copy = tmp_path / "verified.json", f"east.{topic}"
    with MirrorProcess(tmp_path, cluster.bootstrap, west.bootstrap, topic, delivery="exactly_once") as mirror:
        wait_until(lambda: sum(p.records for p in mirror.flow().partitions) == 120)
        wait_until(lambda: [p.lag for p in mirror.flow().partitions if p.lag is not None] == [0, 0])
        lines = mirror.cli("verify", "east->west", "--state", str(state))
        assert {(line["partition"], line["compared"]) for line in lines} == {(0, 60), (1, 60)}
        assert not any(line[fault] for line in lines for fault in ("missing", "doubled", "reordered", "foreign"))
        cluster.produce(topic, [f"later {n}" for n in range(20)])
        wait_until(lambda: sum(p.records for p in mirror.flow().partitions) == 140)
        again = mirror.cli("verify", "east->west", "--state", str(state))
        assert sum(line["compared"] for line in again) == 20, "it goes on where it was"
        records = [record for record in everything(west, copy) if record.partition == 0]
        with ottla.Admin(west.bootstrap) as admin:
            admin.topics.delete_records(copy, {0: records[1].offset})
        with ottla.Producer(west.bootstrap, topic=copy, key="bytes", value="bytes") as planted:
            planted.send(records[-1].value, key=records[-1].key, headers=records[-1].headers, partition=0,
                         timestamp=records[-1].timestamp)  # fmt: skip
            planted.send(records[0].value, key=records[0].key, headers=records[0].headers, partition=0,
                         timestamp=records[0].timestamp)  # fmt: skip
            planted.send(b"of nobody", partition=0)
        found = mirror.cli("verify", "east->west", exit_code=3)
        assert [(line["missing"], line["doubled"], line["reordered"], line["foreign"]) for line in found] == [
            (0, 1, 1, 1), (0, 0, 0, 0)
        ]  # fmt: skip
        with ottla.Admin(west.bootstrap) as admin:
            admin.topics.delete_records(copy, {1: 5})
        assert mirror.cli("verify", "east->west", exit_code=3)[1]["missing"] == 5


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_topic_that_was_made_anew_is_copied_from_its_beginning_and_its_offsets_are_its_own(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, delivery: str
) -> None:
    name = f"{topic}-anew"
    admin.topics.create(name, partitions=1)
    cluster.produce(name, [f"former {n}" for n in range(50)])
    with mirrored(cluster, west, name, delivery) as (flow,):
        wait_until(lambda: len(copied(west, name)) == 50)
        admin.topics.delete(name)
        wait_until(lambda: not admin.topics.exists(name))
        admin.topics.create(name, partitions=1)
        cluster.produce(name, [f"{n}" for n in range(20)])
        wait_until(lambda: len(copied(west, name)) == 70)
        at = {record.value: record.offset for record in copied(west, name)}
        partition = ottla.TopicPartition(name, 0)
        wait_until(lambda: flow.syncs.end(partition) == 20)
        assert all(flow.syncs.translate(partition, n) == at[b"%d" % n] for n in range(20))
        assert flow.trouble == ""


@pytest.mark.story("copy-deleted-while-its-flow-runs")
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once", "same_offsets"])
def test_a_copy_that_is_deleted_while_its_flow_runs_is_filled_again(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, delivery: str
) -> None:
    """Other partitions of the flow go on; of a topic that rests, too, all is copied again."""
    busy, quiet = f"{topic}-busy", f"{topic}-quiet"
    for name in (busy, quiet):
        admin.topics.create(name, partitions=1)
        cluster.produce(name, [f"{n}" for n in range(100)])
    with mirrored(cluster, west, f"{topic}-.*", delivery) as (flow,):
        wait_until(lambda: all(len(copied(west, name)) == 100 for name in (busy, quiet)))
        with ottla.Admin(west.bootstrap) as target:
            target.topics.delete(f"east.{quiet}")
        cluster.produce(busy, [f"{n}" for n in range(100, 200)])
        wait_until(lambda: len(copied(west, busy)) == 200)
        wait_until(lambda: len(copied(west, quiet)) == 100)
        with ottla.Admin(west.bootstrap) as target:
            target.topics.delete(f"east.{busy}")
        cluster.produce(busy, [f"{n}" for n in range(200, 300)])
        wait_until(lambda: len(copied(west, busy)) == 300)
        wait_until(lambda: not any(partition.error for partition in flow.partitions.values()))
        values = [record.value for record in copied(west, busy)]
        assert values == [b"%d" % n for n in range(len(values))]
