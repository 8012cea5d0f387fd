"""Transactions of a Producer against scripted coordinators: the calls, the block, and what may come in between."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted_groups import consumer_of, filled, make_anew
from scripted_requests import parts_of
from waiting import wait_until

import ottla
from ottla.client.kafka.apis import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT
from ottla.errors import (
    CommitFailedError,
    ConfigError,
    ErrorCode,
    FencedError,
    OttlaError,
    TransactionAborted,
    UnknownTopicError,
)
from ottla.errors import TimeoutError as OttlaTimeoutError
from ottla.fakes.scripted import Break, Hang, Hold, Reject, ScriptedCluster
from ottla.fakes.scripted_txn import ScriptedTransactions
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import AddPartitionsToTxnRequest, EndTxnRequest, ProduceRequest
from ottla_core.model import TopicPartition
from ottla_core.records.batch import read_header
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto import txn_pb2
from ottla_proto.contracts import Txn

WAIT = 10.0
WAIT_IN_VAIN = 1000.0


@pytest.fixture(autouse=True, params=[TRANSACTIONS_V2, TRANSACTIONS_V1], ids=["v2", "v1"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of the cluster's transactions."""
    monkeypatch.setattr(ScriptedTransactions, "version", request.param)
    return int(request.param)


def producer_of(cluster: ScriptedCluster, **arguments: Any) -> Producer[Any, Any]:
    given = {"topic": "t", "value": "bytes", "retry_backoff": 0.01, "transactional_id": "tx", "max_block": 5.0}
    return Producer("b0:1", **{**given, "_transport": cluster.connect, **arguments})


def committed(cluster: ScriptedCluster, topic: str = "t") -> list[bytes]:
    with ottla.Consumer(
        topic, bootstrap="b0:1", start="earliest", stop="end", value="bytes", _transport=cluster.connect
    ) as consumer:
        return sorted(record.value for record in consumer)


def attempt(producer: Producer[Any, Any], *values: bytes, then: Callable[[], object] = bool) -> None:
    """A block that sends these, has them acknowledged, and then does something more."""
    with producer.transaction() as tx:
        for value in values:
            tx.send(value)
        producer.flush()
        then()


def fail(*_: object) -> None:
    raise KeyError


def ends(cluster: ScriptedCluster) -> list[bool]:
    return [request.committed for request in cluster.requests(EndTxnRequest)]


def test_kafkas_calls_commit_and_abort_and_each_transaction_has_its_own_epoch(version: int) -> None:
    cluster = ScriptedCluster({"t": 2})
    with producer_of(cluster) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(b"%d" % number, partition=0)
            producer.send(b"%d" % number, partition=1)
            producer.flush()
            (producer.commit_transaction if number % 2 else producer.abort_transaction)()
    requests = cluster.requests(ProduceRequest)
    headers = [read_header(part.records) for request in requests for part in parts_of(request)]
    assert {(h.producer_epoch, h.base_sequence, h.is_transactional) for h in headers} == {
        (epoch, 0, True) for epoch in range(4)
    }
    assert {request.transactional_id for request in requests} == {"tx"}
    assert ends(cluster) == [False, True, False, True]
    assert bool(cluster.requests(AddPartitionsToTxnRequest)) is (version == TRANSACTIONS_V1)


def test_a_block_commits_at_its_end_and_aborts_where_it_raises() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        with producer.transaction() as tx:
            tx.send(b"one")
        lost = []
        with pytest.raises(KeyError):
            attempt(producer, b"two", then=lambda: (lost.append(producer.send(b"three")), fail()))
        assert isinstance(lost[0].exception(WAIT), TransactionAborted)
        with producer.transaction() as tx:
            tx.send(b"four")
        with producer.transaction():
            pass  # nothing was sent: the coordinator hears nothing of it
    assert ends(cluster) == [True, False, True]


@pytest.mark.parametrize("committed", [True, False])
def test_what_is_prepared_waits_for_its_decision_by_this_producer_too(committed: bool) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        with producer.transaction() as tx:
            tx.send(b"one")
            prepared = producer.prepare_transaction()
        assert prepared == ("tx", *cluster.transactions.by_id["tx"].producer)
        for call in (producer.begin_transaction, producer.prepare_transaction, lambda: producer.send(b"two")):
            with pytest.raises(ConfigError, match=r"prepared for a decision.*here or elsewhere"):
                call()
        assert ends(cluster) == []
        (producer.commit_transaction if committed else producer.abort_transaction)()
    assert ends(cluster) == [committed]


def test_what_is_prepared_outlives_its_producer_and_its_block() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer, pytest.raises(KeyError):
        attempt(producer, b"one", then=lambda: (producer.prepare_transaction(), fail()))
    assert ends(cluster) == []
    assert cluster.transactions.by_id["tx"].is_prepared


def test_nothing_is_prepared_where_nothing_was_sent_or_a_record_has_failed() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        with producer.transaction():
            assert producer.prepare_transaction() is None
        cluster.will(PRODUCE, Reject(ErrorCode.INVALID_RECORD, "scripted"))
        producer.begin_transaction()
        producer.send(b"one")
        with pytest.raises(TransactionAborted, match="scripted"):
            producer.prepare_transaction()
    assert cluster.requests(txn_pb2.PrepareRequest) == []


def test_a_prepare_that_is_lost_is_sent_again_and_one_that_is_refused_leaves_an_abort() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        with producer.transaction() as tx:
            tx.send(b"one")
            cluster.will(Txn.PREPARE, Break(), None)
            assert producer.prepare_transaction() is not None
        producer.commit_transaction()
        late = lambda: (cluster.transactions.time_out("tx"), producer.prepare_transaction())  # noqa: E731 - a step
        with pytest.raises(TransactionAborted, match=r"timed-out.*is over"):
            attempt(producer, b"two", then=late)
        attempt(producer, b"three")
    assert committed(cluster) == [b"one", b"three"]


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda p: p.begin_transaction(), "init_transactions"),
        (lambda p: p.send(b"x"), "init_transactions"),
        (lambda p: (p.init_transactions(), p.init_transactions()), "begin_transaction"),
        (lambda p: (p.init_transactions(), p.send(b"x")), "begin_transaction"),
        (lambda p: (p.init_transactions(), p.commit_transaction()), "begin_transaction"),
        (lambda p: (p.init_transactions(), p.abort_transaction()), "begin_transaction"),
        (lambda p: (p.init_transactions(), p.begin_transaction(), p.begin_transaction()), "commit_transaction"),
    ],
)
def test_a_call_out_of_turn_says_which_one_comes_first(wrong: Any, hint: str) -> None:
    with producer_of(ScriptedCluster({"t": 1})) as producer, pytest.raises(ConfigError, match=hint):
        wrong(producer)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"enable_idempotence": False}, "can't be combined"),
        ({"acks": 1}, "idempotence needs"),
        ({"retries": 0}, "idempotence needs"),
        ({"transactional_id": ""}, "not valid"),
        ({"transactional_id": "x" * 10_000_000}, "not valid"),
        ({"transaction_timeout": 0}, "not valid"),
    ],
)
def test_settings_that_exclude_transactions_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        producer_of(ScriptedCluster({"t": 1}), **arguments)
    assert len(str(refused.value)) < 500


def test_a_producer_without_an_id_has_no_transactions_and_a_closed_one_none_any_more() -> None:
    with producer_of(ScriptedCluster({"t": 1}), transactional_id=None) as plain:
        with pytest.raises(ConfigError, match="transactional_id="):
            plain.transaction()
        plain.send(b"x")
    producer = producer_of(ScriptedCluster({"t": 1}))
    producer.close()
    with pytest.raises(ConfigError, match="closed"):
        producer.init_transactions()


def test_a_timeout_above_the_clusters_is_a_config_error() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(INIT_PRODUCER_ID, Reject(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
    with producer_of(cluster) as producer, pytest.raises(ConfigError, match="transaction_timeout"):
        producer.init_transactions()


def test_what_the_coordinator_is_not_ready_for_is_asked_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    busy, lost = Reject(ErrorCode.CONCURRENT_TRANSACTIONS), Break(applied=True)
    cluster.will(INIT_PRODUCER_ID, busy, Reject(ErrorCode.NOT_COORDINATOR))
    cluster.will(END_TXN, busy, lost, Reject(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    cluster.will(PRODUCE, Reject(ErrorCode.CONCURRENT_TRANSACTIONS), Reject(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with producer_of(cluster) as producer, producer.transaction() as tx:
        tx.send(b"x")
    assert cluster.values("t", 0)[0] == b"x"
    assert cluster.transactions.by_id["tx"].ended == [((1000, 0), True)]


def test_a_cluster_that_can_not_prepare_leaves_the_transaction_open() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(Txn.PREPARE, Reject(ErrorCode.UNSUPPORTED_VERSION, "not here"))
    with producer_of(cluster) as producer, producer.transaction() as tx:
        tx.send(b"x")
        with pytest.raises(OttlaError, match="not here") as raised:
            producer.prepare_transaction()
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert committed(cluster) == [b"x"]


def test_an_end_and_an_epoch_whose_responses_were_lost_are_asked_for_again() -> None:
    cluster, lost = ScriptedCluster({"t": 1}), Break(applied=True)
    with producer_of(cluster) as producer:
        producer.init_transactions()
        for number in range(4):
            cluster.will(INIT_PRODUCER_ID, lost)
            producer.begin_transaction()
            producer.send(b"%d" % number)
            producer.flush()
            cluster.will(END_TXN, lost)
            (producer.commit_transaction if number % 2 else producer.abort_transaction)()
    assert cluster.transactions.by_id["tx"].ended == [((1000, epoch), bool(epoch % 2)) for epoch in range(4)]
    assert committed(cluster) == [b"1", b"3"]


def test_a_commit_that_is_refused_as_abortable_is_aborted_and_the_next_one_may_begin() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        cluster.will(END_TXN, Reject(ErrorCode.TRANSACTION_ABORTABLE, "a reason"))
        with pytest.raises(TransactionAborted, match="was not committed: a reason"):
            attempt(producer, b"x")
        attempt(producer, b"y")
    assert ends(cluster) == [True, False, True]
    assert committed(cluster) == [b"y"]


def test_a_failed_record_aborts_the_block_and_the_next_one_may_begin() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.MESSAGE_TOO_LARGE, "too large for the topic"))
    with producer_of(cluster) as producer:
        with pytest.raises(TransactionAborted, match="too large for the topic"), producer.transaction() as tx:
            tx.send(b"x", partition=0)
        attempt(producer, b"y")
    assert ends(cluster) == [False, True]
    assert cluster.values("t", 0)[-2] == b"y"


def test_by_kafkas_calls_a_failed_transaction_takes_nothing_until_it_is_aborted() -> None:
    cluster = ScriptedCluster({"t": 1})
    cluster.will(PRODUCE, Reject(ErrorCode.INVALID_PRODUCER_EPOCH, "an old epoch"))
    with producer_of(cluster) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        assert producer.send(b"x").exception(WAIT) is not None
        for call in (lambda: producer.send(b"y"), producer.commit_transaction):
            with pytest.raises(TransactionAborted, match="an old epoch"):
                call()
        with pytest.raises(ConfigError, match="abort_transaction"):
            producer.begin_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(b"z").result(WAIT)
        producer.commit_transaction()


def test_a_transaction_that_timed_out_is_told_from_one_that_was_fenced() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer, producer_of(cluster) as other:
        with pytest.raises(TransactionAborted, match=r"timed-out .*: transaction\.timeout\.ms is over"):
            attempt(producer, b"x", then=lambda: cluster.transactions.time_out("tx"))
        attempt(producer, b"y")
        other.init_transactions()
        by_whom = r"some-client at 127\.0\.0\.1 on 20.*has initialized a newer producer"
        with pytest.raises(FencedError, match=by_whom), producer.transaction() as tx:
            tx.send(b"z")
        for call in (producer.begin_transaction, producer.commit_transaction, lambda: producer.send(b"a")):
            with pytest.raises(FencedError, match="newer producer"):
                call()
    assert cluster.transactions.by_id["tx"].ended == [((1000, 1), True)]


def test_where_the_coordinator_is_silent_commit_ends_in_time_and_goes_on_when_called_again() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, max_block=0.3) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(b"x")
        cluster.will(END_TXN, *[Hang()] * 50)
        with pytest.raises(OttlaTimeoutError):
            producer.commit_transaction()
        for refused in (producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(ConfigError, match=r"commit_transaction\(\) again"):
                refused()
        cluster.forget(END_TXN)
        producer.commit_transaction()
        producer.begin_transaction()


def test_a_block_whose_commit_has_no_outcome_does_not_claim_one() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, max_block=0.3) as producer:
        with pytest.raises(OttlaTimeoutError):
            attempt(producer, b"x", then=lambda: cluster.will(END_TXN, *[Hang()] * 50))
        cluster.forget(END_TXN)
    assert cluster.transactions.by_id["tx"].ended == [((1000, 0), True)], "the close asks for the same again"


def test_a_block_whose_abort_was_not_answered_lets_the_next_one_begin(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster, max_block=0.3) as producer:
        with pytest.raises(KeyError):
            attempt(producer, b"x", then=lambda: (cluster.will(END_TXN, *[Hang()] * 50), fail()))
        assert "has not been aborted yet" in caplog.text
        cluster.forget(END_TXN)
        attempt(producer, b"y")
    assert cluster.transactions.by_id["tx"].ended == [((1000, 0), False), ((1000, 1), True)]


@pytest.mark.parametrize("how", ["close", "raise", "interrupt"])
def test_a_close_aborts_what_is_open_and_what_it_held_fails(how: str) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster, linger=60)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(b"x")
    producer.flush()
    held = producer.send(b"y")
    if how == "close":
        producer.close()
    else:
        with pytest.raises((KeyError, KeyboardInterrupt)), producer:
            raise KeyError if how == "raise" else KeyboardInterrupt
    assert isinstance(held.exception(WAIT), TransactionAborted)
    assert ends(cluster) == [False]


def test_a_close_without_a_coordinator_ends_and_says_who_aborts(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(b"x")
    producer.flush()
    cluster.will(END_TXN, *[Hang()] * 50)
    began_at = time.monotonic()
    with caplog.at_level(logging.WARNING):
        producer.close(0.2)
    assert time.monotonic() - began_at < WAIT
    assert "the coordinator will have to end the open transaction" in caplog.text


def test_an_interrupted_commit_is_aborted_before_the_coordinator_was_asked_and_never_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            attempt(producer, b"x", then=lambda: (producer.send(b"y"), interrupt(patched, producer._sender, "flush")))
        assert ends(cluster) == [False]
        client = producer._manager._client  # type: ignore[union-attr]  # it has one
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            attempt(producer, b"y", then=lambda: interrupt(patched, client, "end"))
        with pytest.raises(ConfigError, match=r"commit_transaction\(\) again"):
            producer.begin_transaction()
        producer.commit_transaction()
    assert ends(cluster)[-1:] == [True]


def interrupt(patched: pytest.MonkeyPatch, owner: object, method: str) -> None:
    """The next call of that method is interrupted by Ctrl-C."""

    def interrupted(*_: Any, **__: Any) -> None:
        patched.undo()
        raise KeyboardInterrupt

    patched.setattr(owner, method, interrupted)


def test_of_two_threads_that_end_one_transaction_one_waits_and_none_hangs() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(b"x")
        cluster.will(PRODUCE, Hold())
        outcomes: list[object] = []

        def commit() -> None:
            try:
                outcomes.append(producer.commit_transaction())
            except ConfigError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=commit) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: cluster.requests(ProduceRequest), limit_s=WAIT)
        cluster.release()
        for thread in threads:
            thread.join(WAIT)
    assert sorted(map(type, outcomes), key=str) == [type(None), ConfigError]
    assert ends(cluster) == [True]


def test_what_a_late_thread_sends_into_an_aborted_transaction_is_not_in_the_next_one() -> None:
    cluster = ScriptedCluster({"t": 1})
    with producer_of(cluster) as producer:
        producer.init_transactions()
        for _ in range(200):
            producer.begin_transaction()
            cluster.will(PRODUCE, Hold())
            late = producer.send(b"late")
            producer.abort_transaction()
            assert isinstance(late.exception(WAIT), TransactionAborted)
            cluster.release()
            cluster.forget(PRODUCE)
        with producer.transaction() as tx:
            tx.send(b"good")
    log = cluster.logs[TopicPartition("t", 0)]
    assert committed(cluster) == [b"good"]
    assert not log.open


def test_a_sender_that_fails_by_a_bug_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)

    def lose() -> None:
        monkeypatch.setattr(producer._sender, "_send", fail)
        assert producer.send(b"y").exception(WAIT) is not None

    with pytest.raises(OttlaError):
        attempt(producer, b"x", then=lose)
    producer.close()
    assert ends(cluster) == [False]


def test_a_block_that_closes_its_producer_does_not_pass_for_committed() -> None:
    cluster = ScriptedCluster({"t": 1})
    producer = producer_of(cluster)
    with pytest.raises(ConfigError, match="closed"):
        attempt(producer, b"x", then=producer.close)
    assert ends(cluster) == [False]


@pytest.mark.story("offsets-of-a-transactions-topic")
def test_what_was_read_before_its_topic_was_made_anew_is_committed_by_no_transaction() -> None:
    cluster = filled({0: 10})
    cluster.add_topic("out", 1)
    with (
        producer_of(cluster, topic="out", max_block=WAIT_IN_VAIN) as producer,
        consumer_of(cluster, commit="manual", metadata_max_age=0.05) as consumer,
    ):
        batch = consumer.poll(WAIT)
        make_anew(cluster, consumer, records=30)
        # Older brokers get names, and only a producer that has met the topic can tell that it is another one.
        assert producer.partitions_for("t") == 1
        for group in (consumer, consumer.group_metadata):
            with pytest.raises(UnknownTopicError), producer.transaction():
                producer.send_offsets_to_transaction(batch.offsets, group)
        newer = consumer.poll(WAIT)
        with pytest.raises(UnknownTopicError), producer.transaction(consumer) as tx:
            tx.commit_offsets(batch)
        assert ends(cluster) == [False] * 3
        assert cluster.groups.group("g").offsets == {}
        with producer.transaction(consumer) as tx:
            tx.commit_offsets(newer)
        assert cluster.groups.group("g").offsets[TopicPartition("t", 0)].offset == 30


def test_offsets_are_committed_with_the_transaction_and_a_group_that_went_on_fails_it() -> None:
    cluster = ScriptedCluster({"t": 1, "in": 1})
    source: dict[str, Any] = {"bootstrap": "b0:1", "group": "g", "commit": "manual", "auto_offset_reset": "earliest"}
    with producer_of(cluster, transactional_id=None) as plain:
        plain.send_many([b"a", b"b"], topic="in")
    with producer_of(cluster) as producer, ottla.Consumer("in", **source, _transport=cluster.connect) as consumer:
        batch = consumer.poll(WAIT)
        with pytest.raises(KeyError):
            attempt(producer, then=lambda: (producer.send_offsets_to_transaction(batch.offsets, consumer), fail()))
        assert cluster.groups.group("g").offsets == {}
        with producer.transaction() as tx:
            tx.commit_offsets(batch)
            assert cluster.groups.group("g").offsets == {}
        assert cluster.groups.group("g").offsets[TopicPartition("in", 0)].offset == 2
        cluster.will(TXN_OFFSET_COMMIT, Reject(ErrorCode.ILLEGAL_GENERATION))
        with pytest.raises(CommitFailedError, match="rebalanced"), producer.transaction() as tx:
            tx.commit_offsets(batch)
        producer.begin_transaction()
        cluster.will(TXN_OFFSET_COMMIT, Reject(ErrorCode.UNKNOWN_MEMBER_ID))
        with pytest.raises(CommitFailedError):
            producer.send_offsets_to_transaction(batch.offsets, consumer)
        with pytest.raises(TransactionAborted, match="rebalanced"):
            producer.commit_transaction()
        producer.abort_transaction()
        with ottla.Consumer("in", bootstrap="b0:1", start="earliest", _transport=cluster.connect) as alone:
            of_none = alone.poll(WAIT)
        with pytest.raises(ConfigError, match="read without a group"), producer.transaction() as tx:
            tx.commit_offsets(of_none)
    assert ends(cluster) == [False, True, False, False]


@pytest.mark.story("transactional-queues-never-forgotten")
def test_a_transaction_that_has_ended_leaves_nothing_of_topics_that_nothing_is_sent_to() -> None:
    topics = {f"t{n}": 2 for n in range(20)}
    cluster = ScriptedCluster(topics)
    with producer_of(cluster, metadata_max_idle=0.2, topic=None) as producer:
        for value in (b"1", b"2"):  # the second time each topic is found again
            with producer.transaction() as tx:
                for topic in topics:
                    tx.send(value, topic=topic, partition=1)

            def forgotten() -> bool:
                producer._topics.updater.refresh()  # as it does by itself now and then
                return not producer._accumulator._queues

            wait_until(forgotten, limit_s=WAIT)
    for topic in topics:
        assert committed(cluster, topic) == [b"1", b"2"]
