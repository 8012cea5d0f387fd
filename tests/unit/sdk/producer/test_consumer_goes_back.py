"""A consumer that was passed to a transaction block continues after its records or goes back to what is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from scripted_groups import WAIT, consumer_of, filled
from waiting import until

import ottla
from ottla.client.kafka.apis import END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT
from ottla.errors import ConfigError, TransactionAborted
from ottla.fakes.scripted import Hang, Hold, ScriptedCluster
from ottla.fakes.scripted_txn import ScriptedTransactions
from ottla.producer.producer import Producer
from ottla.producer.transaction_manager import TransactionManager
from ottla_core.kafka.messages import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest
from ottla_core.transactions import TRANSACTIONS_V1

SILENCE = [Hang()] * 50


def cluster_of(records: int) -> ScriptedCluster:
    cluster = filled({0: records})
    cluster.add_topic("out", 1)
    return cluster


def settings(cluster: ScriptedCluster, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap": "b0:1",
        "topic": "out",
        "value": "int",
        "transactional_id": "tx",
        "max_block": 0.3,
        "retry_backoff": 0.01,
        "_transport": cluster.connect,
        **more,
    }


def producer_of(cluster: ScriptedCluster, **more: Any) -> Producer[Any, Any]:
    return Producer(**settings(cluster, **more))


def offsets(batch: Any) -> list[int]:
    return [record.offset for record in batch]


def work_on(batch: Any, producer: Producer[Any, Any], consumer: Any, then: Callable[[], object] = bool) -> None:
    with producer.transaction(consumer) as tx:
        tx.commit_offsets(batch)
        then()


def fail() -> None:
    raise KeyError


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def end_quietly(producer: Producer[Any, Any]) -> None:
    """As the page about transactions says."""
    while True:
        try:
            producer.commit_transaction()
        except ottla.TimeoutError:
            continue
        except ottla.OttlaError:
            return
        return


@pytest.mark.story("transaction-that-nobody-saw-end-skips-its-batch")
def test_records_come_again_if_the_block_can_not_begin() -> None:
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        assert offsets(consumer.poll(WAIT, max_records=2)) == [0, 1]
        cluster.will(INIT_PRODUCER_ID, *SILENCE)
        with pytest.raises(ottla.TimeoutError), producer.transaction(consumer):
            pass
        cluster.forget(INIT_PRODUCER_ID)
        assert offsets(consumer.poll(WAIT, max_records=2)) == [0, 1]


@pytest.mark.story("transaction-that-nobody-saw-end-skips-its-batch")
@pytest.mark.parametrize("commits", [True, False])
def test_records_of_an_unknown_commit_come_again_only_if_it_turns_out_to_have_failed(commits: bool) -> None:
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT, max_records=2)
        with pytest.raises(ottla.TimeoutError):
            work_on(batch, producer, consumer, lambda: cluster.will(END_TXN, *SILENCE))
        assert not consumer.poll(0.1), "while the outcome is unknown, nobody knows where to continue"
        if not commits:
            cluster.transactions.time_out("tx")
        cluster.forget(END_TXN)
        end_quietly(producer)
        assert offsets(consumer.poll(WAIT, max_records=2)) == ([2, 3] if commits else [0, 1])


def test_the_next_block_ends_a_commit_whose_outcome_is_unknown() -> None:
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT, max_records=2)
        with pytest.raises(ottla.TimeoutError):
            work_on(batch, producer, consumer, lambda: cluster.will(END_TXN, *SILENCE))
        cluster.forget(END_TXN)
        with pytest.raises(ConfigError, match=r"commit_transaction\(\) again"), producer.transaction():
            pass  # without a consumer only the program can know what the outcome means
        with producer.transaction(consumer):
            pass
        assert offsets(consumer.poll(WAIT, max_records=2)) == [2, 3]


def test_records_come_again_if_the_block_itself_aborts() -> None:
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT, max_records=2)
        work_on(batch, producer, consumer, producer.abort_transaction)
        assert offsets(consumer.poll(WAIT, max_records=2)) == [0, 1]


@pytest.mark.parametrize("commits", [True, False])
def test_records_of_a_prepared_transaction_come_again_only_if_it_is_aborted(commits: bool) -> None:
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT, max_records=2)
        work_on(batch, producer, consumer, producer.prepare_transaction)
        assert not consumer.poll(0.1)
        (producer.commit_transaction if commits else producer.abort_transaction)()
        assert offsets(consumer.poll(WAIT, max_records=2)) == ([2, 3] if commits else [0, 1])


def test_a_block_that_an_error_left_is_not_committed_by_a_later_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler raises before the abort, and the program asks for the commit, as after an unknown one."""
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT, max_records=2)
        monkeypatch.setattr(TransactionManager, "abort", interrupted)
        with pytest.raises(KeyboardInterrupt):
            work_on(batch, producer, consumer, fail)
        monkeypatch.undo()
        with pytest.raises(ConfigError, match=r"can only be aborted.*abort_transaction"):
            producer.commit_transaction()
        producer.abort_transaction()
        assert offsets(consumer.poll(WAIT, max_records=2)) == [0, 1]


def test_one_batch_may_be_worked_on_in_several_blocks() -> None:
    cluster = cluster_of(4)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT, max_records=2)
        with pytest.raises(KeyError):
            work_on(batch, producer, consumer, fail)
        work_on(batch, producer, consumer)
        assert offsets(consumer.poll(WAIT, max_records=2)) == [2, 3]


def test_a_poll_within_the_block_goes_on_and_the_block_can_be_entered_again() -> None:
    cluster = cluster_of(6)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        block = producer.transaction(consumer)
        for expected in ([0, 1], [2, 3]):
            with block as tx:
                batch = consumer.poll(WAIT, max_records=2)
                assert offsets(batch) == expected
                tx.commit_offsets(batch)
        with suppress(KeyError), block:
            assert offsets(consumer.poll(WAIT, max_records=2)) == [4, 5]
            raise KeyError
        assert offsets(consumer.poll(WAIT, max_records=2)) == [4, 5]


def test_an_iteration_continues_with_the_record_whose_block_failed() -> None:
    cluster = cluster_of(6)
    seen = []
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        for record in consumer:
            seen.append(record.offset)
            try:
                with producer.transaction(consumer):
                    producer.send_offsets_to_transaction({("t", 0): record.offset + 1}, consumer)
                    if len(seen) in (1, 4):
                        fail()
            except KeyError:
                continue
            if record.offset == 5:
                break
    assert seen == [0, 0, 1, 2, 2, 3, 4, 5]


def test_a_consumer_without_a_group_is_refused() -> None:
    cluster = cluster_of(1)
    with (
        producer_of(cluster) as producer,
        consumer_of(cluster, group=None, start="earliest") as consumer,
        pytest.raises(ConfigError, match="no group"),
    ):
        producer.transaction(consumer)


def test_blocks_of_one_producer_are_not_nested() -> None:
    cluster = cluster_of(2)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT)
        with pytest.raises(TransactionAborted, match=r"did not end.*do not nest"):
            work_on(batch, producer, consumer, lambda: producer.transaction().__enter__())
        assert offsets(consumer.poll(WAIT)) == [0, 1]
    assert [request.committed for request in cluster.requests(EndTxnRequest)] == [False]


def test_a_block_that_goes_on_after_another_one_within_it_does_not_count() -> None:
    cluster = cluster_of(2)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT)

        def nest() -> None:
            with suppress(TransactionAborted):
                producer.transaction().__enter__()

        with pytest.raises(TransactionAborted, match="another block"):
            work_on(batch, producer, consumer, nest)
        assert offsets(consumer.poll(WAIT)) == [0, 1]


def test_a_block_of_another_thread_is_left_alone() -> None:
    cluster = cluster_of(2)
    with producer_of(cluster) as producer, consumer_of(cluster, commit="manual") as consumer:
        batch = consumer.poll(WAIT)

        def enter_elsewhere() -> None:
            with ThreadPoolExecutor(1) as threads, pytest.raises(ConfigError, match="in a transaction"):
                threads.submit(producer.transaction().__enter__).result(WAIT)

        work_on(batch, producer, consumer, enter_elsewhere)
        assert consumer.position(("t", 0)) == 2


# ---- asyncio


def aio_producer_of(cluster: ScriptedCluster, **more: Any) -> ottla.aio.Producer[Any, Any]:
    return ottla.aio.Producer(**settings(cluster, **more))


def aio_consumer_of(cluster: ScriptedCluster) -> ottla.aio.Consumer[Any, Any]:
    given = {"bootstrap": "b0:1", "group": "g", "auto_offset_reset": "earliest", "commit": "manual"}
    return ottla.aio.Consumer("t", **given, _transport=cluster.connect)


async def test_a_read_that_was_cancelled_before_does_not_hide_records_that_come_again() -> None:
    cluster = cluster_of(2)
    async with aio_producer_of(cluster) as producer, aio_consumer_of(cluster) as consumer:
        batch = await consumer.poll(WAIT)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.poll(WAIT), 0.05)  # its thread still waits for records

        async def work() -> None:
            async with producer.transaction(consumer) as tx:
                await tx.commit_offsets(batch)
                raise KeyError

        with pytest.raises(KeyError):
            await work()
        assert offsets(await consumer.poll(WAIT)) == [0, 1]


def calls(cluster: ScriptedCluster, kind: Any) -> Callable[[], object]:
    """Return whether another request of this kind has come."""
    before = len(cluster.requests(kind))
    return lambda: len(cluster.requests(kind)) > before


async def cancelled(work: Coroutine[Any, Any, None], once: Callable[[], object]) -> None:
    task = asyncio.create_task(work)
    await until(once)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.story("cancelled-block-is-never-ended")
async def test_a_block_that_is_cancelled_before_its_end_has_begun_is_committed_all_the_same() -> None:
    cluster = cluster_of(2)
    async with aio_producer_of(cluster, max_block=5.0) as producer, aio_consumer_of(cluster) as consumer:
        batch = await consumer.poll(WAIT)
        left: list[asyncio.Future[None]] = []

        async def work() -> None:
            async with producer.transaction(consumer) as tx:
                cluster.will(TXN_OFFSET_COMMIT, Hold())
                has_come = calls(cluster, TxnOffsetCommitRequest)
                # It keeps the producer's thread busy, so that the end of the block waits for its turn.
                left.append(asyncio.ensure_future(tx.commit_offsets(batch)))
                await until(has_come)
                asyncio.get_running_loop().call_soon(left.append, left[0])  # once this task waits in `__aexit__`

        await cancelled(work(), lambda: len(left) == 2)
        cluster.release()
        await left[0]
        await until(lambda: [request.committed for request in cluster.requests(EndTxnRequest)] == [True])
        assert await consumer.position(("t", 0)) == 2


@pytest.mark.story("cancelled-initialization-counts-as-a-second-one")
async def test_an_initialization_that_was_cancelled_is_waited_for_by_the_next_call() -> None:
    cluster = cluster_of(0)
    async with aio_producer_of(cluster, max_block=5.0) as producer:
        cluster.will(INIT_PRODUCER_ID, Hold())
        await cancelled(producer.init_transactions(), calls(cluster, InitProducerIdRequest))
        cluster.release()
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.commit_transaction()
    assert len(cluster.requests(InitProducerIdRequest)) == 1


async def test_a_block_of_another_task_is_left_alone() -> None:
    cluster = cluster_of(0)
    async with aio_producer_of(cluster) as producer:

        async def enter_elsewhere() -> None:
            with pytest.raises(ConfigError, match="in a transaction"):
                await producer.transaction().__aenter__()

        async with producer.transaction() as tx:
            await tx.send(1)
            await asyncio.create_task(enter_elsewhere())
            await tx.send(2)
    assert [request.committed for request in cluster.requests(EndTxnRequest)] == [True]


async def test_an_initialization_that_failed_can_be_tried_again() -> None:
    cluster = cluster_of(0)
    async with aio_producer_of(cluster) as producer:
        cluster.will(INIT_PRODUCER_ID, *SILENCE)
        with pytest.raises(ottla.TimeoutError):
            await producer.init_transactions()
        cluster.forget(INIT_PRODUCER_ID)
        await producer.init_transactions()


@pytest.mark.story("cancelled-begin-leaves-a-transaction-open")
async def test_a_transaction_whose_begin_was_cancelled_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedTransactions, "version", TRANSACTIONS_V1)  # in which a begin calls the coordinator
    cluster = cluster_of(0)
    async with aio_producer_of(cluster, max_block=5.0) as producer:
        async with producer.transaction() as tx:
            tx.send(1)
        cluster.will(INIT_PRODUCER_ID, Hold())
        await cancelled(producer.begin_transaction(), calls(cluster, InitProducerIdRequest))
        cluster.release()
        await producer.begin_transaction()
        await producer.send(2)
        await producer.commit_transaction()
    assert [request.committed for request in cluster.requests(EndTxnRequest)] == [True, True]
