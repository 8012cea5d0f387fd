"""kafka-transactions and kafka-features against a cluster; kafka-dump-log on what transactions leave on its disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from peers.client import End, Rec, Step
from peers.kafka.tools import run_tool
from peers.place import PeerError
from peers.security import librdkafka
from tests.compat.cells import TOOLS
from tests.compat.clients.confluent import Confluent
from tests.compat.crossing import BASE_MS
from tests.compat.topics import Topics
from waiting import LIMIT_S, wait_until

import ottla
from ottla_broker.service import BrokerService
from ottla_proto import broker_pb2
from ottla_proto.common_pb2 import Error
from ottla_stack.cluster import Cluster

LOST: list[bool] = []
"""While there is something in it, markers are acknowledged and not written: so transactions hang."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    write = BrokerService.write_txn_markers

    async def lose(self: BrokerService, request: Any, context: Any) -> Any:
        if not LOST:
            return await write(self, request, context)
        written = [broker_pb2.MarkerWritten(partitions=[Error() for _ in m.partitions]) for m in request.markers]
        return broker_pb2.WriteTxnMarkersResponse(markers=written)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(BrokerService, "write_txn_markers", lose)
        with Cluster(txn_coordinators=1) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> Iterator[Topics]:
    with Topics(cluster.bootstrap) as topics:
        yield topics


def rows(cluster: Cluster, *arguments: str) -> list[dict[str, str]]:
    """The table that kafka-transactions prints; `abort` prints nothing."""
    printed = run_tool("kafka-transactions", "--bootstrap-server", cluster.bootstrap, *arguments).splitlines()
    head, *lines = [[cell.strip() for cell in line.split("\t")] for line in printed] or [[]]
    return [dict(zip(head, line, strict=True)) for line in lines]


@pytest.fixture
def begun(cluster: Cluster, topic: str) -> Producer:
    """It has the topic's name as its id, and a transaction with a record that is years old: the tool goes by that."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, **librdkafka()})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0, timestamp=BASE_MS)
    assert producer.flush(LIMIT_S) == 0
    return producer


@TOOLS.cell
def test_transactions_are_listed_and_described(cluster: Cluster, topic: str, begun: Producer) -> None:
    listed = {row["TransactionalId"]: row for row in rows(cluster, "list")}
    (described,) = rows(cluster, "describe", "--transactional-id", topic)
    found = described
    assert (listed[topic]["TransactionState"], listed[topic]["ProducerId"]) == ("Ongoing", found["ProducerId"])
    assert (found["TransactionState"], found["TopicPartitions"]) == ("Ongoing", f"{topic}-0")
    assert found["TransactionTimeoutMs"] == "60000"
    (producer,) = rows(cluster, "describe-producers", "--topic", topic, "--partition", "0")
    assert (producer["ProducerId"], producer["CurrentTransactionStartOffset"]) == (found["ProducerId"], "0")
    assert rows(cluster, "find-hanging", "--topic", topic) == [], "its coordinator knows it"
    assert rows(cluster, "list", "--duration-filter", "3600000") == []
    (found,) = rows(cluster, "list", "--transactional-id-pattern", f"{topic[:-1]}[{topic[-1]}]")
    assert found == listed[topic]
    with pytest.raises(PeerError, match="INVALID_REGULAR_EXPRESSION"):
        rows(cluster, "list", "--transactional-id-pattern", "(")
    began, opened_ms = found["ProducerId"], int(described["CurrentTransactionStartTimeMs"])
    begun.abort_transaction(LIMIT_S)
    (described,) = rows(cluster, "describe", "--transactional-id", topic)
    over = (described["TransactionState"], int(described["CurrentTransactionStartTimeMs"]))
    assert over == ("CompleteAbort", opened_ms), "the start of a transaction is told once it is over"
    (producer,) = rows(cluster, "describe-producers", "--topic", topic, "--partition", "0")
    assert (producer["ProducerId"], producer["CurrentTransactionStartOffset"]) == (began, "None")
    assert int(producer["LastTimestamp"]) >= opened_ms, "of the marker, for the record is years old"


@TOOLS.cell
def test_a_transaction_that_hangs_is_found_and_aborted(cluster: Cluster, topic: str, begun: Producer) -> None:
    LOST.append(True)
    try:
        begun.commit_transaction(LIMIT_S)
        wait_until(
            lambda: rows(cluster, "describe", "--transactional-id", topic)[0]["TransactionState"] == "CompleteCommit"
        )
    finally:
        LOST.clear()
    Confluent().produce(cluster.bootstrap, topic, [Rec(b"k", b"behind")])
    (found,) = rows(cluster, "find-hanging", "--topic", topic)
    assert (found["Topic"], found["Partition"], found["StartOffset"]) == (topic, "0", "0")
    rows(cluster, "abort", "--topic", topic, "--partition", "0", "--start-offset", found["StartOffset"])
    assert rows(cluster, "find-hanging", "--topic", topic) == []
    (read,) = Confluent().consume(cluster.bootstrap, topic, 1, isolation="read_committed")
    assert read.value == b"behind"


@TOOLS.cell
def test_features(cluster: Cluster) -> None:
    described = run_tool("kafka-features", "--bootstrap-server", cluster.bootstrap, "describe")
    lines = [dict(re.findall(r"(\w+): (\S+)", line)) for line in described.splitlines() if line]
    levels = {
        line["Feature"]: [
            line[f"{what}"] for what in ("SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
        ]
        for line in lines
    }
    assert levels == {
        "transaction.version": ["0", "2", "2"],
        "group.version": ["0", "1", "1"],
        "eligible.leader.replicas.version": ["0", "1", "1"],
    }


@pytest.mark.feature(142, 147)
@TOOLS.cell
def test_dump_log_reads_what_transactions_leave() -> None:
    """The index of aborted transactions, and the coordinator's log, as Kafka's own code has them."""
    with Cluster(txn_coordinators=1) as cluster, Topics(cluster.bootstrap) as topics:
        topic = topics.create()
        Confluent().transact(cluster.bootstrap, topic, "its-id", steps(topics, topic))
        with ottla.Admin(cluster.bootstrap) as admin:  # the answer comes before the log has that it is complete
            wait_until(lambda: admin.transactions.describe("its-id").state == "CompleteAbort")
        folders = {name: topics.folder(cluster, name) for name in (topic, "__transaction_state")}
        cluster.brokers[0].stop()
        indexes = list(folders[topic].glob("*.txnindex"))
        state = folders["__transaction_state"]
        shards = [p for f in state.parent.glob(f"{state.name[:-1]}*") for p in f.glob("*.log") if p.stat().st_size]
        aborted = run_tool("kafka-dump-log", "--files", ",".join(map(str, indexes))).splitlines()
        described = run_tool("kafka-dump-log", "--transaction-log-decoder", "--files", ",".join(map(str, shards)))
    assert re.sub(r"producerId: \d+", "producerId: …", aborted[-1]) == (
        "version: 0 producerId: … firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    )
    values = [json.loads(found)["data"] for found in re.findall(r"payload: (\{.*\})$", described, re.MULTILINE)]
    # A round of the coordinator writes the newest state of an id alone, so what is complete may be open again.
    states = [value["transactionStatus"] for value in values if value["transactionStatus"] != "CompleteCommit"]
    assert states == ["Empty", "Ongoing", "PrepareCommit", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert values[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]


def steps(topics: Topics, topic: str) -> Iterator[Step]:
    """A transaction that is committed, one that is aborted."""
    ends: list[End] = ["commit", "abort"]
    for n, end in enumerate(ends):
        yield "begin"
        yield Rec(b"k", b"v")
        wait_until(lambda n=n: topics.end(topic) == 2 * n + 1)
        yield end
