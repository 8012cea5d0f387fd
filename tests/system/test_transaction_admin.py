"""admin.transactions over real services: what is open, who blocks readers, what hangs; and it is aborted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from waiting import LIMIT_S, wait_until

import ottla
from ottla.connect import PreparedTransaction
from ottla.errors import ErrorCode, OttlaError
from ottla.testing import Cluster
from ottla_broker.replication import topic_config
from ottla_broker.service import BrokerService
from ottla_cli.main import run
from ottla_core.model import TopicPartition
from ottla_group_coordinator.service import GroupService
from ottla_proto import broker_pb2, group_pb2
from ottla_proto.common_pb2 import Error

LOST: list[bool] = []
"""While there is something in it, markers are acknowledged and not written: so transactions hang."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    to_leader, to_group = BrokerService.write_txn_markers, GroupService.write_txn_markers

    async def lose_of_leader(self: BrokerService, request: Any, context: Any) -> Any:
        if not LOST:
            return await to_leader(self, request, context)
        written = [broker_pb2.MarkerWritten(partitions=[Error() for _ in m.partitions]) for m in request.markers]
        return broker_pb2.WriteTxnMarkersResponse(markers=written)

    async def lose_of_group(self: GroupService, request: Any, context: Any) -> Any:
        if not LOST:
            return await to_group(self, request, context)
        written = [group_pb2.ShardMarkerWritten(shards=[Error() for _ in m.shards]) for m in request.markers]
        return group_pb2.WriteShardMarkersResponse(markers=written)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(BrokerService, "write_txn_markers", lose_of_leader)
        monkeypatch.setattr(GroupService, "write_txn_markers", lose_of_group)
        with Cluster(group_coordinators=1, txn_coordinators=2) as cluster:
            yield cluster


@pytest.fixture
def begun(cluster: Cluster, topic: str) -> Iterator[ottla.Producer]:
    """With a record in partition 1, of a transaction that is open; its id is the topic's name."""
    with ottla.Producer(cluster.bootstrap, transactional_id=topic, transaction_timeout=60) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(b"x", topic=topic, partition=1).result(LIMIT_S)
        yield producer


def hang(admin: ottla.Admin, producer: ottla.Producer, name: str) -> None:
    LOST.append(True)
    try:
        producer.commit_transaction()
        wait_until(lambda: admin.transactions.describe(name).state == "CompleteCommit")
    finally:
        LOST.clear()


@pytest.mark.feature(164)
def test_an_open_transaction_is_seen_from_both_sides(admin: ottla.Admin, begun: ottla.Producer, topic: str) -> None:
    (listed,) = admin.transactions.list(prefix=topic, states=["Ongoing"])
    found = admin.transactions.describe(topic)
    assert (listed.name, listed.state, listed.producer_id) == (topic, "Ongoing", found.producer_id)
    assert found.partitions == (TopicPartition(topic, 1),)
    assert found.started_at is not None
    assert found.ends_by is not None
    assert found.timeout == 60
    assert (found.ends_by - found.started_at).total_seconds() == 60
    assert abs((datetime.now(UTC) - found.started_at).total_seconds()) < 20
    assert [event.kind for event in found.events] == ["initialized"]

    free, blocked = admin.transactions.open_in(topic)
    assert (free.is_blocked, free.open) == (False, ())
    assert (blocked.is_blocked, blocked.last_stable_offset, blocked.high_watermark) == (True, 0, 1)
    (held,) = blocked.open
    assert (held.first_offset, held.is_hanging, held.transaction) == (0, False, found)
    (known,) = admin.transactions.producers(topic, 1)
    assert known == held.producer
    assert (known.producer_id, known.producer_epoch, known.last_sequence) == (
        found.producer_id,
        found.producer_epoch,
        0,
    )

    begun.commit_transaction()
    wait_until(lambda: not admin.transactions.open_in(topic, 1)[0].is_blocked)
    (known,) = admin.transactions.producers(topic, 1)
    assert (known.first_offset, known.producer_epoch) == (None, found.producer_epoch + 1)
    assert admin.transactions.describe(topic).ends_by is None


@pytest.mark.feature(164)
def test_a_listing_is_of_what_it_names(admin: ottla.Admin, begun: ottla.Producer, topic: str) -> None:
    transactions = admin.transactions
    assert [t.name for t in transactions.list(prefix=topic)] == [topic]
    assert transactions.list(prefix=topic, states=["Empty"]) == []
    assert transactions.list(prefix=topic, longer_than=300) == []
    wait_until(lambda: [t.name for t in transactions.list(prefix=topic, longer_than=0.01)] == [topic])
    assert [t.name for t in transactions.list(pattern=f"{topic}|")] == [topic]
    with pytest.raises(OttlaError, match="unknown transaction state: Sleeping"):
        transactions.list(states=["Sleeping"])
    with pytest.raises(OttlaError) as raised:
        transactions.list(pattern="(")
    assert raised.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    with pytest.raises(OttlaError) as raised:
        transactions.describe("never-there")
    assert raised.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.feature(164)
def test_an_abort_by_id_frees_readers_and_fences(admin: ottla.Admin, begun: ottla.Producer, topic: str) -> None:
    aborted = admin.transactions.abort(topic)
    assert (aborted.name, aborted.state, aborted.partitions) == (topic, "Ongoing", (TopicPartition(topic, 1),))
    wait_until(lambda: admin.transactions.open_in(topic)[1].open == ())
    with pytest.raises(ottla.FencedError):
        begun.commit_transaction()
    with pytest.raises(OttlaError, match="no open transaction") as raised:
        admin.transactions.abort(topic)
    assert raised.value.code == ErrorCode.INVALID_TXN_STATE
    with pytest.raises(OttlaError) as raised:
        admin.transactions.abort("never-there")
    assert raised.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert admin.transactions.list(prefix="never-there") == [], "an id that was not there has not come into being"


@pytest.mark.feature(164)
def test_what_hangs_is_found_and_aborted(admin: ottla.Admin, begun: ottla.Producer, topic: str) -> None:
    assert admin.transactions.hanging(topic) == ()
    with pytest.raises(OttlaError, match=f"{topic} is Ongoing"):
        admin.transactions.abort_hanging(topic, 1, first_offset=0)
    hang(admin, begun, topic)
    (found,) = admin.transactions.hanging()
    assert (found.partition, found.first_offset, found.is_hanging) == (TopicPartition(topic, 1), 0, True)
    with pytest.raises(OttlaError, match="begins at offset 7"):
        admin.transactions.abort_hanging(topic, 1, first_offset=7)
    assert admin.transactions.abort_hanging(topic, 1, first_offset=0) == found
    assert not admin.transactions.open_in(topic, 1)[0].is_blocked
    assert admin.transactions.hanging() == ()


@pytest.mark.feature(164)
def test_offsets_of_a_transaction_that_hangs_are_aborted_by_the_groups_coordinator(
    cluster: Cluster, admin: ottla.Admin, begun: ottla.Producer, topic: str
) -> None:
    begun.send_offsets_to_transaction({(topic, 0): 3}, ottla.GroupMetadata(topic, -1, "", None))
    hang(admin, begun, topic)
    offsets, records = sorted(admin.transactions.hanging(), key=lambda found: found.partition)
    assert offsets.partition.topic == "__consumer_offsets"
    for each in (offsets, records):
        admin.transactions.abort_hanging(*each.partition, first_offset=each.first_offset)
    assert admin.transactions.hanging() == ()
    assert admin.groups.exists(topic) is False


def test_a_transaction_that_ends_between_two_answers_does_not_hang(
    admin: ottla.Admin, begun: ottla.Producer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions, described = admin.transactions, admin.transactions.described

    def ended_meanwhile(names: Any, **arguments: Any) -> Any:
        begun.commit_transaction()
        wait_until(lambda: transactions.describe(topic).state == "CompleteCommit")
        return described(names, **arguments)

    monkeypatch.setattr(transactions, "described", ended_meanwhile)
    assert transactions.open_in(topic, 1)[0].open == ()


@pytest.mark.story("an-id-forgotten-between-two-answers")
def test_open_in_skips_an_id_that_is_forgotten_after_it_was_listed(
    admin: ottla.Admin, begun: ottla.Producer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = admin.transactions.list

    def list_with_another(**which: Any) -> Any:
        found = listed(**which)
        return [*found, *(replace(each, name=f"{each.name}-forgotten") for each in found)]

    monkeypatch.setattr(admin.transactions, "list", list_with_another)
    assert [each.is_hanging for found in admin.transactions.open_in(topic) for each in found.open] == [False]


@pytest.mark.feature(164)
def test_the_command_line_leads_from_who_waits_to_who_is_aborted(
    cluster: Cluster, admin: ottla.Admin, begun: ottla.Producer, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*line: str) -> tuple[int, list[Any]]:
        code = run(["txn", *line, "-b", cluster.bootstrap, "-o", "jsonl", "-y"])
        return code, [json.loads(text) for text in capsys.readouterr().out.splitlines()]

    code, (blocked,) = command("explain", topic)
    assert code == 0
    assert (blocked["transactional_id"], blocked["partition"], blocked["last_stable_offset"]) == (topic, 1, 0)
    assert command("ls", topic)[1][0]["state"] == "Ongoing"
    assert command("show", topic)[1][0]["until"] == blocked["until"]
    assert command("producers", topic, "1")[1][0]["open_since_offset"] == 0
    assert command("abort", blocked["transactional_id"]) == (0, [{"name": topic, "action": "aborted"}])
    wait_until(lambda: command("explain", topic) == (0, []))
    assert [event["kind"] for event in command("explain", "--id", topic)[1]][-2:] == ["fenced", "initialized"]
    assert command("show", "never-there")[0] == 4

    with ottla.Producer(cluster.bootstrap, transactional_id=f"{topic}-2") as other:
        other.init_transactions()
        other.begin_transaction()
        other.send(b"x", topic=topic, partition=0).result(LIMIT_S)
        hang(admin, other, f"{topic}-2")
    code, (found,) = command("hanging", topic)
    place = ("--topic", topic, "--partition", "0", "--offset", str(found["first_offset"]))
    assert command("abort", *place) == (0, [{"name": f"{topic}-0@0", "action": "aborted"}])
    assert command("hanging") == (0, [])


@pytest.mark.rule(43)
def test_a_leader_tells_of_a_transaction_that_should_long_have_ended(
    cluster: Cluster, admin: ottla.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_config, "_LATE_MS", -900_000)  # as if 20 minutes had gone
    admin.topics.create(name := "late", partitions=2)

    def late() -> tuple[TopicPartition, ...]:
        return tuple(p for d in admin.cluster.log_dirs(0) for p in d.late_transactions if p.topic == name)

    with ottla.Producer(cluster.bootstrap, transactional_id=name) as producer:
        with producer.transaction() as tx:
            tx.send(b"x", topic=name, partition=1).result(LIMIT_S)
            wait_until(lambda: late() == (TopicPartition(name, 1),))
        wait_until(lambda: late() == ())


def prepare(cluster: Cluster, topic: str, name: str) -> PreparedTransaction:
    with ottla.Producer(cluster.bootstrap, topic=topic, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name)
        prepared = producer.prepare_transaction()
    assert prepared is not None
    return prepared


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_prepared_is_ended_by_whom_its_producer_has_named_it_to(
    cluster: Cluster, admin: ottla.Admin, topic: str, committed: bool
) -> None:
    prepared = prepare(cluster, topic, topic)
    assert admin.transactions.describe(topic).is_prepared
    with pytest.raises(OttlaError) as refused:
        admin.transactions.forget(topic)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    admin.transactions.end(prepared, committed=committed)
    admin.transactions.end(prepared, committed=committed)
    with pytest.raises(OttlaError) as refused:
        admin.transactions.end(prepared, committed=not committed)
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE
    for _ in range(2):
        admin.transactions.forget(topic)
        assert admin.transactions.list(prefix=topic) == []
    assert [record.value for record in cluster.read(topic)] == [topic] * committed
    with pytest.raises(OttlaError) as refused:
        admin.transactions.end(prepared, committed=committed)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_prepared_transaction_is_aborted_by_its_id(cluster: Cluster, admin: ottla.Admin, topic: str) -> None:
    prepare(cluster, topic, topic)
    transactions = admin.transactions
    found = transactions.describe(topic)
    assert (found.is_prepared, found.version, found.ends_by) == (True, 2, None)
    assert transactions.abort(topic) == found
    wait_until(lambda: transactions.describe(topic).state == "CompleteAbort")
    assert not transactions.describe(topic).is_prepared
    transactions.forget(topic)
    assert cluster.read(topic) == []


@pytest.mark.story("events-of-a-broker")
def test_events_and_the_error_of_a_fenced_producer_name_the_client_behind_the_broker(
    cluster: Cluster, admin: ottla.Admin, topic: str
) -> None:
    def producer(client_id: str) -> ottla.Producer:
        return ottla.Producer(cluster.bootstrap, topic=topic, transactional_id=topic, client_id=client_id)

    with producer("first") as first, producer("second") as second:
        first.init_transactions()
        first.begin_transaction()
        second.init_transactions()
        with pytest.raises(ottla.FatalError, match=r"second at 127\.0\.0\.1"):
            first.send("x").result(LIMIT_S)
        second.begin_transaction()
        second.send("x")
        prepared = second.prepare_transaction()
        assert prepared is not None
        admin.transactions.end(prepared, committed=True)
    events = [(event.kind, event.client_id, event.host) for event in admin.transactions.describe(topic).events]
    here = "127.0.0.1"
    assert events == [
        ("initialized", "first", here),
        ("initialized", "second", here),
        ("prepared", "second", here),
        ("committed", admin.client_id, here),
    ]


def test_an_open_transaction_is_seen_from_both_sides_and_aborted(
    admin: ottla.Admin, begun: ottla.Producer, topic: str
) -> None:
    transactions = admin.transactions
    (listed,) = transactions.list(prefix=topic, states=["Ongoing"])
    found = transactions.describe(topic)
    assert (listed.name, listed.state, listed.producer_id) == (topic, "Ongoing", found.producer_id)
    assert (listed.coordinator, listed.shard) == (found.coordinator, found.shard)
    assert found.shard >= 0
    assert (found.partitions, found.timeout) == ((TopicPartition(topic, 1),), 60)
    assert [event.kind for event in found.events] == ["initialized"]
    assert found.ends_by is not None
    assert transactions.list(pattern=f"{topic}|", longer_than=300) == []

    free, blocked = transactions.open_in(topic)
    assert (free.is_blocked, free.open) == (False, ())
    assert (blocked.is_blocked, blocked.last_stable_offset, blocked.high_watermark) == (True, 0, 1)
    (held,) = blocked.open
    assert (held.first_offset, held.is_hanging, held.transaction) == (0, False, found)
    assert transactions.producers(topic, 1) == (held.producer,)
    with pytest.raises(OttlaError, match="is not hanging"):
        transactions.abort_hanging(topic, 1, first_offset=0)

    assert transactions.abort(topic).producer_id == found.producer_id
    wait_until(lambda: not transactions.open_in(topic, 1)[0].is_blocked)
    with pytest.raises(ottla.FencedError):
        begun.abort_transaction()
    with pytest.raises(OttlaError) as raised:
        transactions.describe("never was")
    assert raised.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_transaction_that_hangs_is_found_and_aborted(admin: ottla.Admin, begun: ottla.Producer, topic: str) -> None:
    hang(admin, begun, topic)
    (found,) = admin.transactions.hanging(topic)
    assert (found.partition, found.first_offset) == (TopicPartition(topic, 1), 0)
    assert admin.transactions.abort_hanging(topic, 1, first_offset=0) == found
    assert admin.transactions.hanging(topic) == ()
    wait_until(lambda: not admin.transactions.open_in(topic, 1)[0].is_blocked)
