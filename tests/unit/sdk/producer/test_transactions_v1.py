"""Transactions of version 1, as older clusters of Kafka have them: what the producer has to do itself, and when."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from scripted_groups import consumer_of, filled
from waiting import wait_until

from ottla.client.guard import whether_owned
from ottla.client.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from ottla.client.offsets import GroupMetadata
from ottla.errors import AuthorizationError, ErrorCode, FencedError, OttlaError, TransactionAborted
from ottla.errors import TimeoutError as OttlaTimeoutError
from ottla.fakes.scripted import Break, Hang, Hold, Reject, ScriptedCluster
from ottla.fakes.scripted_txn import ScriptedTransactions
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from ottla_core.transactions import TRANSACTIONS_V1

WAIT = 10.0
GROUP = GroupMetadata("g", -1, "", None)


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedTransactions, "version", TRANSACTIONS_V1)


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    given = {"topic": "t", "value": "bytes", "retry_backoff": 0.01, "transactional_id": "tx", "max_block": 5.0}
    return Producer("b0:1", **{**given, "_transport": cluster.connect, **arguments})


def begun(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    producer = producer_of(cluster, **arguments)
    producer.init_transactions()
    producer.begin_transaction()
    return producer


def added(cluster: ScriptedCluster) -> list[list[tuple[str, int]]]:
    """Return the partitions in each request that adds some."""
    return [
        [(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions]
        for request in cluster.requests(AddPartitionsToTxnRequest)
    ]


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_each_partition_is_added_once_in_each_transaction_before_anything_is_sent_there() -> None:
    cluster = ScriptedCluster({"t": 2})
    with producer_of(cluster) as producer:
        for _ in range(2):
            with producer.transaction() as tx:
                for number in range(6):
                    tx.send(b"x", partition=number % 2)
                    producer.flush()
        seen = [type(body) for _, body in cluster.seen]
    partitions = [partition for request in added(cluster) for partition in request]
    assert sorted(partitions) == [("t", 0), ("t", 0), ("t", 1), ("t", 1)]
    assert seen.index(AddPartitionsToTxnRequest) < seen.index(ProduceRequest)


def test_partitions_are_requested_in_the_step_that_finds_that_they_are_wanted() -> None:
    """Otherwise an abort could end the transaction between the two steps. The partitions would be added afterwards,
    which would begin another transaction."""
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster) as producer:
        request, is_owned, owned = producer._sender.add_partitions, whether_owned(producer._sender.lock), list[bool]()
        assert request is not None
        producer._sender.add_partitions = lambda partitions: (owned.append(is_owned()), request(partitions))[1]
        producer.send(b"x").result(WAIT)
        producer.commit_transaction()
    assert owned == [True]


def test_partitions_that_are_wanted_meanwhile_are_added_together() -> None:
    cluster = ScriptedCluster({"t": 9})
    with begun(cluster, linger=0) as producer:
        cluster.will(ADD_PARTITIONS_TO_TXN, Hold())
        producer.send(b"x", partition=0)
        cluster.until(lambda: len(added(cluster)) == 1)
        for partition in range(1, 9):
            producer.send(b"x", partition=partition)
        wait_until(lambda: len(producer._manager._adder._wanted) == 8, limit_s=WAIT)  # type: ignore[union-attr]  # it has one
        cluster.release()
        producer.commit_transaction()
    assert added(cluster) == [[("t", 0)], [("t", partition) for partition in range(1, 9)]]


@pytest.mark.parametrize(
    "step", [Break(), Break(applied=True), Reject(ErrorCode.CONCURRENT_TRANSACTIONS), Reject(ErrorCode.NOT_COORDINATOR)]
)
def test_what_was_not_added_for_now_is_added_later(step: Any) -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(ADD_PARTITIONS_TO_TXN, step)
    with producer_of(cluster) as producer, producer.transaction() as tx:
        tx.send(b"x")
    assert len(added(cluster)) == 2
    assert cluster.values("t", 0)[0] == b"x"


def test_what_can_not_be_added_within_one_call_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster) as producer:
        add, tries = producer._manager._client.add_partitions, []  # type: ignore[union-attr]  # it has one

        def once(*given: Any, **named: Any) -> None:
            tries.append(given)
            if len(tries) < 3:
                raise OttlaTimeoutError(ErrorCode.REQUEST_TIMED_OUT, "scripted")
            add(*given, **named)

        monkeypatch.setattr(producer._manager._client, "add_partitions", once)  # type: ignore[union-attr]  # it has one
        producer.send(b"x").result(WAIT)
        producer.commit_transaction()
    assert len(tries) == 3


def test_a_partition_that_may_not_be_added_fails_the_transaction_and_the_next_one_may_begin() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(ADD_PARTITIONS_TO_TXN, Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with producer_of(cluster) as producer:
        with pytest.raises(TransactionAborted, match="may not do this with the topic"), producer.transaction() as tx:
            tx.send(b"x")
        with producer.transaction() as tx:
            tx.send(b"y")
    assert cluster.values("t", 0)[0] == b"y"


def test_the_error_is_that_of_the_partition_at_fault() -> None:
    cluster = ScriptedCluster({"t": 3})
    cluster.will(ADD_PARTITIONS_TO_TXN, Hold(), Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with begun(cluster, linger=0) as producer:
        producer.send(b"x", partition=0)
        cluster.until(lambda: len(added(cluster)) == 1)
        late = [producer.send(b"x", partition=partition) for partition in (1, 2)]
        wait_until(lambda: len(producer._manager._adder._wanted) == 2, limit_s=WAIT)  # type: ignore[union-attr]  # it has one
        cluster.release()
        for delivery in late:
            assert "t-2: the user may not do this with the topic" in str(delivery.exception(WAIT))
        producer.abort_transaction()


@pytest.mark.story("denied-topic-repeats-rounds-for-ever")
def test_only_records_of_the_refused_partition_fail_with_the_refusal_and_the_others_with_the_transaction() -> None:
    cluster = ScriptedCluster({"t": 2})
    cluster.will(ADD_PARTITIONS_TO_TXN, Hold(), Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with begun(cluster, linger=0) as producer:
        innocent = producer.send(b"x", partition=0)
        cluster.until(lambda: len(added(cluster)) == 1)
        refused = producer.send(b"x", partition=1)
        wait_until(lambda: len(producer._manager._adder._wanted) == 1, limit_s=WAIT)  # type: ignore[union-attr]  # it has one
        cluster.forget(PRODUCE)
        cluster.will(PRODUCE, *[Hold()] * 9)
        cluster.release()
        error = refused.exception(WAIT)
        assert isinstance(error, AuthorizationError)
        assert "t-1: the user may not do this with the topic" in str(error)
        assert isinstance(innocent.exception(WAIT), TransactionAborted)
        cluster.release()
        producer.abort_transaction()


def test_a_producer_that_may_not_use_its_id_is_unusable() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(ADD_PARTITIONS_TO_TXN, Reject(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with begun(cluster) as producer:
        assert producer.send(b"x").exception(WAIT) is not None
        with pytest.raises(AuthorizationError, match="may not use the transactional id"):
            producer.begin_transaction()


@pytest.mark.parametrize("has_sent", [True, False])
def test_another_producer_is_noticed_in_a_transaction_and_between_two(has_sent: bool) -> None:
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster) as old, producer_of(cluster) as new:
        if has_sent:
            old.send(b"x").result(WAIT)
        else:
            old.send(b"x").result(WAIT)
            old.commit_transaction()
        new.init_transactions()
        with pytest.raises(FencedError, match="another producer has started"):
            old.commit_transaction() if has_sent else old.begin_transaction()
        with pytest.raises(FencedError):
            old.begin_transaction()


def test_a_begin_without_a_coordinator_ends_in_time_and_may_be_called_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster, max_block=0.3) as producer:
        producer.send(b"x")
        producer.commit_transaction()
        cluster.will(INIT_PRODUCER_ID, *[Hang()] * 50)
        with pytest.raises(OttlaTimeoutError):
            producer.begin_transaction()
        cluster.forget(INIT_PRODUCER_ID)
        producer.begin_transaction()
        producer.send(b"y")
        producer.commit_transaction()
    former = [request.producer_epoch for request in cluster.requests(InitProducerIdRequest)[1:]]
    assert set(former) == {0}
    assert cluster.transactions.by_id["tx"].ended == [((1000, 0), True), ((1000, 1), True)]


def test_a_begin_that_is_refused_for_another_reason_says_so() -> None:
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster) as producer:
        producer.send(b"x")
        producer.commit_transaction()
        cluster.will(INIT_PRODUCER_ID, Reject(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "no longer yours"))
        for _ in range(2):
            with pytest.raises(AuthorizationError, match="no longer yours"):
                producer.begin_transaction()


@pytest.mark.parametrize("step", [None, Reject(ErrorCode.CONCURRENT_TRANSACTIONS), Break()])
def test_the_group_is_added_before_its_offsets(step: Any) -> None:
    cluster = filled({0: 3})
    with begun(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT)
        cluster.will(ADD_OFFSETS_TO_TXN, step)
        cluster.will(TXN_OFFSET_COMMIT, step)
        producer.send_offsets_to_transaction(batch.offsets, consumer)
        producer.commit_transaction()
    tries = 1 if step is None else 2
    groups = cluster.requests(AddOffsetsToTxnRequest)
    commits = cluster.requests(TxnOffsetCommitRequest)
    assert [request.group_id for request in groups] == ["g"] * tries
    assert len(commits) == tries
    seen = [type(body) for _, body in cluster.seen]
    assert seen.index(AddOffsetsToTxnRequest) < seen.index(TxnOffsetCommitRequest)
    assert cluster.groups.group("g").offsets


def test_a_group_that_can_not_be_added_commits_nothing() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(ADD_OFFSETS_TO_TXN, Reject(ErrorCode.INVALID_GROUP_ID))
    with begun(cluster) as producer:
        with pytest.raises(OttlaError, match="the group id is not valid"):
            producer.send_offsets_to_transaction({("t", 0): 5}, GROUP)
        with pytest.raises(TransactionAborted):
            producer.commit_transaction()
        producer.abort_transaction()
    assert cluster.requests(TxnOffsetCommitRequest) == []


# ---- an end, and what is under way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [PRODUCE, ADD_PARTITIONS_TO_TXN])
def test_an_abort_comes_after_what_is_under_way(method: Any) -> None:
    cluster = ScriptedCluster({"t": 2})
    with begun(cluster, max_block=10 * WAIT) as producer:
        producer.send(b"w", partition=1).result(WAIT)
        kind = method.request
        before = len(cluster.requests(kind))
        cluster.will(method, Hold())
        late = producer.send(b"x", partition=0)
        cluster.until(lambda: len(cluster.requests(kind)) == before + 1)
        abort = in_thread(producer.abort_transaction)
        assert isinstance(late.exception(WAIT), TransactionAborted)
        abort.join(0.05)
        assert abort.is_alive()
        assert cluster.requests(EndTxnRequest) == []
        cluster.release()
        abort.join(WAIT)
        assert not abort.is_alive()
        with producer.transaction() as tx:
            tx.send(b"y", partition=0)
    assert [request.committed for request in cluster.requests(EndTxnRequest)] == [False, True]
    assert cluster.values("t", 0)[-2] == b"y"


def test_an_abort_that_waits_in_vain_ends_in_time_and_may_be_called_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster, max_block=0.2) as producer:
        producer.send(b"w").result(WAIT)
        cluster.will(PRODUCE, Hold())
        producer.send(b"x")
        cluster.until(lambda: len(cluster.requests(ProduceRequest)) == 2)
        with pytest.raises(OttlaTimeoutError, match="some of its requests have had no response"):
            producer.abort_transaction()
        assert cluster.requests(EndTxnRequest) == []
        cluster.release()
        producer.abort_transaction()
    assert [request.committed for request in cluster.requests(EndTxnRequest)] == [False]


def test_what_was_wanted_when_the_transaction_was_aborted_is_not_added_to_the_next() -> None:
    cluster = ScriptedCluster({"t": 3})
    with begun(cluster, linger=0) as producer:
        cluster.will(ADD_PARTITIONS_TO_TXN, Hold())
        producer.send(b"x", partition=0)
        cluster.until(lambda: len(added(cluster)) == 1)
        producer.send(b"x", partition=1)
        wait_until(lambda: producer._manager._adder._wanted, limit_s=WAIT)  # type: ignore[union-attr]  # it has one
        abort = in_thread(producer.abort_transaction)
        wait_until(lambda: not producer._manager._adder._wanted, limit_s=WAIT)  # type: ignore[union-attr]  # it has one
        cluster.release()
        abort.join(WAIT)
        with producer.transaction() as tx:
            tx.send(b"y", partition=2)
    assert added(cluster) == [[("t", 0)], [("t", 2)]]


def test_a_transaction_to_which_partitions_were_only_added_has_to_be_ended() -> None:
    cluster = ScriptedCluster({"t": 1})
    with begun(cluster, delivery_timeout=0.3, request_timeout=0.2, linger=0) as producer:
        cluster.will(PRODUCE, *[Break()] * 50)
        assert producer.send(b"x").exception(WAIT) is not None
        producer.abort_transaction()
        cluster.forget(PRODUCE)
    assert [request.committed for request in cluster.requests(EndTxnRequest)] == [False]
    assert not cluster.transactions.by_id["tx"].is_open


@pytest.mark.story("expired-id-ends-an-app")
@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_offsets_that_come_after_the_coordinator_has_ended_the_transaction_abort_it(code: ErrorCode) -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(ADD_OFFSETS_TO_TXN, Reject(code))
    with begun(cluster) as producer:
        with pytest.raises(TransactionAborted, match=r"any more|another producer"):
            producer.send_offsets_to_transaction({("t", 0): 5}, GROUP)
        producer.abort_transaction()
