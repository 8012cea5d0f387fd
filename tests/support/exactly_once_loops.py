"""The documented loop from topic to topic, interrupted or cancelled at every place of its transaction block.

The loop uses public names only. `Fate` says what becomes of a transaction, and `clients` and `aio_clients` connect the
SDK's clients to brokers in memory: these two are all that knows how the SDK works inside.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from interruptions import Interrupting, Interruption

import ottla
from ottla.fakes.scripted import Break, Hang, Reject, ScriptedCluster
from ottla_proto.contracts import Txn

IN, OUT, GROUP, ID = "in", "out", "g", "copy"
_AT_ONCE: Final = 2
_MAX_BLOCK_S: Final = 0.05
_SILENCE: Final = [Hang()] * 200
_POLLS: Final = 200
"""In so many polls the consumer gets records, or it never will."""


class BodyError(Exception):
    """What the program raises in the block."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a transaction: `before_end` happens at the end of the body, which then raises if it `raises`."""

    before_end: Callable[[ScriptedCluster], object] = bool
    raises: bool = False
    is_timed_out: bool = False
    """Whether the coordinator aborts it before the program looks for its outcome."""


FATES: Final[dict[str, Fate]] = {
    "committed": Fate(),
    "committed, but the response is lost": Fate(lambda c: c.will(Txn.END_TXN, Break(applied=True))),
    "not committed": Fate(lambda c: c.will(Txn.END_TXN, Reject(ottla.ErrorCode.TRANSACTION_ABORTABLE))),
    "aborted by the coordinator": Fate(lambda c: c.transactions.time_out(ID)),
    "unknown, and not committed": Fate(lambda c: c.will(Txn.END_TXN, *_SILENCE)),
    "unknown, and committed": Fate(lambda c: c.will(Txn.END_TXN, Break(applied=True), *_SILENCE)),
    "unknown, and aborted by the coordinator": Fate(lambda c: c.will(Txn.END_TXN, *_SILENCE), is_timed_out=True),
    "aborted": Fate(raises=True),
    "not aborted": Fate(lambda c: c.will(Txn.END_TXN, *_SILENCE), raises=True),
    "not aborted, but by the coordinator": Fate(lambda c: c.will(Txn.END_TXN, *_SILENCE), True, True),
}


def cluster_with(count: int) -> ScriptedCluster:
    """Return a cluster with so many records in the topic to copy; the value of each is its offset."""
    cluster = ScriptedCluster({IN: 1, OUT: 1})
    with ottla.Producer[Any, Any]("b0:1", topic=IN, value=int_bytes, _transport=cluster.connect) as producer:
        for number in range(count):
            producer.send(number)
    return cluster


def int_bytes(number: int) -> bytes:
    return b"%d" % number


def _settings(cluster: ScriptedCluster) -> tuple[dict[str, Any], dict[str, Any]]:
    transport = {"_transport": cluster.connect, "bootstrap": "b0:1"}
    produces = {"topic": OUT, "transactional_id": ID, "value": int_bytes, "max_block": _MAX_BLOCK_S}
    consumes = {"group": GROUP, "commit": "manual", "auto_offset_reset": "earliest", "value": int}
    return {**transport, **produces, "retry_backoff": 0.01}, {**transport, **consumes, "fetch_max_wait": 0.05}


def copied(cluster: ScriptedCluster) -> list[int]:
    """Return what readers of committed records get."""
    settings = {"bootstrap": "b0:1", "start": "earliest", "stop": "end", "value": int}
    with ottla.Consumer[Any, int](OUT, **settings, _transport=cluster.connect) as consumer:
        return [record.value for record in consumer]


@dataclass(slots=True)
class Sweep:
    """What a sweep has found. `hits` are the places that it came to."""

    hits: list[str] = field(default_factory=list)
    errors: set[str] = field(default_factory=set)


def interrupted_loop(
    fate: Fate, *, settles: bool, stride: int, first: int = 1, settle_places: bool = False
) -> Sweep:
    """Copy, interrupted at place `first` of the first block, then `stride` places further in each, until there is none.

    A program that `settles` ends the transaction after each error, as docs/use/transactions.md says. Any other polls on.
    Raises AssertionError if a record is left out or copied twice.
    """
    cluster, sweep = cluster_with(4000), Sweep()
    produces, consumes = _settings(cluster)
    with ExitStack() as stack:
        producer = stack.enter_context(ottla.Producer[Any, Any](**produces))
        consumer = stack.enter_context(ottla.Consumer[Any, Any](IN, **consumes))
        for at in itertools.count(first, stride):
            batch = _polled(cluster, consumer, sweep)
            hit = ""
            try:
                block = producer.transaction(consumer)
                with Interrupting(at) as interrupting:
                    try:
                        with block as tx:
                            for number in batch.values():
                                tx.send(number)
                            tx.commit_offsets(batch)
                            fate.before_end(cluster)
                            if fate.raises:
                                raise BodyError
                    finally:
                        hit = interrupting.hit
            except (Interruption, BodyError, ottla.OttlaError) as error:
                sweep.errors.add(type(error).__name__)
                _passes(cluster, fate)
                if settles:
                    settle(producer)
            cluster.forget(Txn.END_TXN)
            if not hit:
                break
            sweep.hits.append(hit)
        _rest(cluster, producer, consumer, sweep)
    return sweep


def _passes(cluster: ScriptedCluster, fate: Fate) -> None:
    """Time passes: the coordinator answers again, or has aborted the transaction."""
    if fate.is_timed_out and cluster.transactions.by_id[ID].is_open:
        cluster.transactions.time_out(ID)
    cluster.forget(Txn.END_TXN)


def settle(producer: ottla.Producer[Any, Any]) -> None:
    """End the transaction: abort it, or ask for its commit again until the outcome is known."""
    while True:
        for end in (producer.abort_transaction, producer.commit_transaction):
            try:
                end()
            except ottla.TimeoutError:
                break
            except ottla.OttlaError:
                continue
            return
        else:
            return


def _polled(cluster: ScriptedCluster, consumer: ottla.Consumer[Any, Any], sweep: Sweep) -> Any:
    """Poll until records come. They begin at the committed offset: no record is left out, and none comes twice."""
    for _ in range(_POLLS):
        if batch := consumer.poll(0.1, max_records=_AT_ONCE):
            committed = consumer.committed((IN, 0))[IN, 0]
            assert batch[0].offset == (0 if committed is None else committed.offset), sweep.hits[-1:]
            return batch
        if cluster.transactions.by_id[ID].is_open:  # the consumer waits for the end of the transaction
            cluster.transactions.time_out(ID)
    raise AssertionError(f"the consumer gets no records any more: {sweep.hits[-1:]}")


def _rest(
    cluster: ScriptedCluster, producer: ottla.Producer[Any, Any], consumer: ottla.Consumer[Any, Any], sweep: Sweep
) -> None:
    """One more round without an interrupt, and the judgement."""
    while True:
        batch = _polled(cluster, consumer, sweep)
        with suppress(ottla.OttlaError), producer.transaction(consumer) as tx:
            for number in batch.values():
                tx.send(number)
            tx.commit_offsets(batch)
            end = batch.offsets[IN, 0]
        if (committed := consumer.committed((IN, 0))[IN, 0]) is not None and committed.offset == end:
            break
    assert copied(cluster) == list(range(end)), sweep.hits[-1:]


# ---- asyncio


class Cancelling:
    """Runs a coroutine in the current task, and cancels that at its nth wait: before it has waited, or after."""

    def __init__(self, work: Awaitable[Any], at: int, *, late: bool) -> None:
        self.hit = False
        self._work: Final = work.__await__()
        self._at: Final = at
        self._late: Final = late

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        for number in itertools.count(1):
            try:
                waits_for = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            if number == self._at:
                self.hit = True
                if self._late and waits_for is not None:
                    waits_for.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            try:
                yield waits_for
            except BaseException as raised:
                error = raised
        return None


async def cancelled_loop(fate: Fate, *, late: bool, settles: bool, places: Iterable[int]) -> int:
    """Copy with asyncio, cancelled at each of these waits of a block in turn. Return how many there were."""
    cluster, sweep, hits = cluster_with(1000), Sweep(), 0
    produces, consumes = _settings(cluster)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(ottla.aio.Producer[Any, Any](**produces))
        consumer = await stack.enter_async_context(ottla.aio.Consumer[Any, Any](IN, **consumes))

        async def work(batch: Any) -> None:
            async with producer.transaction(consumer) as tx:
                sent = [tx.send(number) for number in batch.values()]
                await tx.commit_offsets(batch)
                await sent[0]
                fate.before_end(cluster)
                if fate.raises:
                    raise BodyError

        for at in places:
            batch = await _aio_polled(cluster, consumer, sweep)
            cancelling = Cancelling(work(batch), at, late=late)
            try:
                await cancelling
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
                sweep.errors.add("CancelledError")
            except (BodyError, ottla.OttlaError) as error:
                sweep.errors.add(type(error).__name__)
            sweep.hits.append(f"wait {at}")
            if settles:
                _passes(cluster, fate)
                await _aio_settle(producer)
            hits += cancelling.hit
            if not cancelling.hit:
                break
            if not settles:
                _passes(cluster, fate)
        end = 0
        while True:
            batch = await _aio_polled(cluster, consumer, sweep)
            cluster.forget(Txn.END_TXN)
            with suppress(ottla.OttlaError):
                async with producer.transaction(consumer) as tx:
                    for number in batch.values():
                        tx.send(number)
                    await tx.commit_offsets(batch)
                end = batch.offsets[IN, 0]
                break
    assert (await asyncio.to_thread(copied, cluster)) == list(range(end)), sweep.hits[-1:]
    return hits


async def _aio_polled(cluster: ScriptedCluster, consumer: ottla.aio.Consumer[Any, Any], sweep: Sweep) -> Any:
    for _ in range(_POLLS):
        if batch := await consumer.poll(0.1, max_records=_AT_ONCE):
            committed = (await consumer.committed((IN, 0)))[IN, 0]
            assert batch[0].offset == (0 if committed is None else committed.offset), sweep.hits[-1:]
            return batch
        with cluster.changed:
            cluster.forget(Txn.END_TXN)
            if cluster.transactions.by_id[ID].is_open:
                cluster.transactions.time_out(ID)
    raise AssertionError(f"the consumer gets no records any more: {sweep.hits[-1:]}")


async def _aio_settle(producer: ottla.aio.Producer[Any, Any]) -> None:
    while True:
        for end in (producer.abort_transaction, producer.commit_transaction):
            try:
                await end()
            except ottla.TimeoutError:
                break
            except ottla.OttlaError:
                continue
            return
        else:
            return
