"""The documented loop from topic to topic, interrupted or cancelled at every place of its transaction block.

The loop uses public names only. `Fate` says what becomes of a transaction, and `clients` and `aio_clients` connect the
SDK's clients to brokers in memory: these two are all that knows how the SDK works inside.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from interruptions import Interrupting, Interruption

import ottla
import ottla.aio
from ottla.client.kafka.apis import END_TXN, PRODUCE
from ottla.fakes.scripted import Break, Hang, Reject, ScriptedCluster

IN, OUT, GROUP, ID = "in", "out", "g", "copy"
_AT_ONCE: Final = 2
_MAX_BLOCK_S: Final = 0.05
_SILENCE: Final = [Hang()] * 200
RECOVERIES: Final = ("settles", "polls", "polls, is interrupted")
_POLLS: Final = 200
"""In so many polls the consumer gets records, or it never will."""


class BodyError(Exception):
    """What the program raises in the block."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a transaction: what happens before and after its sends, and whether the body then raises."""

    before_sends: Callable[[ScriptedCluster], object] = bool
    before_end: Callable[[ScriptedCluster], object] = bool
    raises: bool = False
    is_timed_out: bool = False
    """Whether the coordinator aborts it before the program looks for its outcome."""


def _falls_silent(cluster: ScriptedCluster) -> None:
    cluster.will(END_TXN, *_SILENCE)


def _time_out(cluster: ScriptedCluster) -> None:
    with cluster.changed:
        if (transaction := cluster.transactions.by_id.get(ID)) is not None and transaction.is_open:
            cluster.transactions.time_out(ID)


FATES: Final[dict[str, Fate]] = {
    "committed": Fate(),
    "committed, but the response is lost": Fate(before_end=lambda c: c.will(END_TXN, Break(applied=True))),
    "failed with a record": Fate(lambda c: c.will(PRODUCE, Reject(ottla.ErrorCode.INVALID_RECORD))),
    "refused by the coordinator": Fate(before_end=lambda c: c.will(END_TXN, Reject(ottla.ErrorCode.INVALID_TXN_STATE))),
    "aborted by the coordinator": Fate(before_end=lambda c: _time_out(c)),
    "unknown, and not committed": Fate(before_end=_falls_silent),
    "unknown, and committed": Fate(before_end=lambda c: c.will(END_TXN, Break(applied=True), *_SILENCE)),
    "unknown, and aborted by the coordinator": Fate(before_end=_falls_silent, is_timed_out=True),
    "aborted": Fate(raises=True),
    "not aborted": Fate(before_end=_falls_silent, raises=True),
    "not aborted, but by the coordinator": Fate(before_end=_falls_silent, raises=True, is_timed_out=True),
}


def cluster_with(count: int) -> ScriptedCluster:
    """Return a cluster with so many records in the topic to copy; the value of each is its offset."""
    cluster = ScriptedCluster({IN: 1, OUT: 1})
    with ottla.Producer[Any, Any]("b0:1", topic=IN, value="int", _transport=cluster.connect) as producer:
        for number in range(count):
            producer.send(number)
    return cluster


def _settings(cluster: ScriptedCluster) -> tuple[dict[str, Any], dict[str, Any]]:
    transport = {"_transport": cluster.connect, "bootstrap": "b0:1"}
    produces = {"topic": OUT, "transactional_id": ID, "value": "int", "max_block": _MAX_BLOCK_S}
    consumes = {"group": GROUP, "commit": "manual", "auto_offset_reset": "earliest", "value": "int"}
    return {**transport, **produces, "retry_backoff": 0.01}, {**transport, **consumes, "fetch_max_wait": 0.05}


def copied(cluster: ScriptedCluster) -> list[int]:
    """Return what readers of committed records get."""
    settings: dict[str, Any] = {"bootstrap": "b0:1", "start": "earliest", "stop": "end", "value": "int"}
    with ottla.Consumer[Any, int](OUT, **settings, _transport=cluster.connect) as consumer:
        return [record.value for record in consumer]


@dataclass(slots=True)
class Sweep:
    """What a sweep has found."""

    hits: list[str] = field(default_factory=list)
    """The places that it came to."""
    errors: set[str] = field(default_factory=set)
    ahead: set[str] = field(default_factory=set)
    """The places after which a poll returned records that are behind records to be copied: the next block refused."""


def interrupted_loop(fate: Fate, *, recovery: str, stride: int = 1, first: int = 1) -> Sweep:
    """Copy, interrupted at place `first` of a block, then `stride` places further in each block, until there is none.

    After an interrupt the program ends the transaction, as docs/use/transactions.md says ("settles"), or polls on, with
    a block that is not interrupted after each one that is ("polls"), or without ("polls, is interrupted").
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
                            fate.before_sends(cluster)
                            _copy(tx, batch)
                            fate.before_end(cluster)
                            if fate.raises:
                                raise BodyError
                    finally:
                        hit = interrupting.hit
            except (Interruption, BodyError, ottla.OttlaError) as error:
                sweep.errors.add(type(error).__name__)
                _passes(cluster, fate)
                if recovery == "settles":
                    settle(producer)
            _answers_again(cluster)
            if not hit:
                break
            sweep.hits.append(hit)
            if recovery == "polls":
                _copied_in_peace(cluster, producer, consumer, sweep)
        end = _copied_in_peace(cluster, producer, consumer, sweep)
    assert copied(cluster) == list(range(end)), sweep.hits[-1:]
    return sweep


def _copy(tx: Any, batch: Any) -> None:
    for number in batch.values():
        tx.send(number)
    tx.commit_offsets(batch)


def _copied_in_peace(
    cluster: ScriptedCluster, producer: ottla.Producer[Any, Any], consumer: ottla.Consumer[Any, Any], sweep: Sweep
) -> int:
    """Copy without an interrupt, until a block has committed. Return the offset where the next one begins."""
    for _ in range(_POLLS):
        batch = _polled(cluster, consumer, sweep)
        with suppress(ottla.OttlaError):
            with producer.transaction(consumer) as tx:
                _copy(tx, batch)
            return int(batch.offsets[IN, 0])
    raise AssertionError(f"no block commits any more: {sweep.hits[-1:]}")


def _passes(cluster: ScriptedCluster, fate: Fate) -> None:
    """Time passes: the coordinator answers again, or has aborted the transaction."""
    if fate.is_timed_out:
        _time_out(cluster)
    _answers_again(cluster)


def _answers_again(cluster: ScriptedCluster) -> None:
    cluster.forget(END_TXN)
    cluster.forget(PRODUCE)


def settle(producer: ottla.Producer[Any, Any]) -> None:
    """End the transaction: abort it, or ask for its commit again until the outcome is known."""
    for _ in range(_POLLS):
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
    """Poll until records come."""
    for _ in range(_POLLS):
        if batch := consumer.poll(0.1, max_records=_AT_ONCE):
            _look_at(batch, cluster, sweep)
            return batch
        _time_out(cluster)  # the consumer waits for the end of the transaction
    raise AssertionError(f"the consumer gets no records any more: {sweep.hits[-1:]}")


def _look_at(batch: Any, cluster: ScriptedCluster, sweep: Sweep) -> None:
    with cluster.changed:
        committed = [offset.offset for offset in cluster.groups.group(GROUP).offsets.values()]
    if batch[0].offset != max(committed, default=0):
        sweep.ahead.update(sweep.hits[-1:])


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


async def cancelled_loop(fate: Fate, *, late: bool, recovery: str) -> Sweep:
    """Like `interrupted_loop` with asyncio, cancelled at each wait of a block: before it has waited, or after."""
    cluster, sweep = cluster_with(400), Sweep()
    produces, consumes = _settings(cluster)
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(ottla.aio.Producer[Any, Any](**produces))
        consumer = await stack.enter_async_context(ottla.aio.Consumer[Any, Any](IN, **consumes))

        async def work(batch: Any) -> None:
            async with producer.transaction(consumer) as tx:
                fate.before_sends(cluster)
                sent = [tx.send(number) for number in batch.values()]
                await tx.commit_offsets(batch)
                await asyncio.gather(*sent, return_exceptions=True)
                fate.before_end(cluster)
                if fate.raises:
                    raise BodyError

        for at in itertools.count(1):
            batch = await _aio_polled(cluster, consumer, sweep)
            cancelling = Cancelling(work(batch), at, late=late)
            try:
                await cancelling
            except (asyncio.CancelledError, BodyError, ottla.OttlaError) as error:
                if isinstance(error, asyncio.CancelledError):
                    _uncancel()
                sweep.errors.add(type(error).__name__)
                _passes(cluster, fate)
                if recovery == "settles":
                    await _aio_settle(producer)
            _answers_again(cluster)
            if not cancelling.hit:
                break
            sweep.hits.append(f"wait {at}")
            if recovery == "polls":
                await _aio_copied_in_peace(cluster, producer, consumer, sweep)
        end = await _aio_copied_in_peace(cluster, producer, consumer, sweep)
    assert (await asyncio.to_thread(copied, cluster)) == list(range(end)), sweep.hits[-1:]
    return sweep


def _uncancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()


async def _aio_copied_in_peace(
    cluster: ScriptedCluster,
    producer: ottla.aio.Producer[Any, Any],
    consumer: ottla.aio.Consumer[Any, Any],
    sweep: Sweep,
) -> int:
    for _ in range(_POLLS):
        batch = await _aio_polled(cluster, consumer, sweep)
        with suppress(ottla.OttlaError):
            async with producer.transaction(consumer) as tx:
                for number in batch.values():
                    tx.send(number)
                await tx.commit_offsets(batch)
            return int(batch.offsets[IN, 0])
    raise AssertionError(f"no block commits any more: {sweep.hits[-1:]}")


async def _aio_polled(cluster: ScriptedCluster, consumer: ottla.aio.Consumer[Any, Any], sweep: Sweep) -> Any:
    for _ in range(_POLLS):
        if batch := await consumer.poll(0.1, max_records=_AT_ONCE):
            _look_at(batch, cluster, sweep)
            return batch
        _time_out(cluster)
    raise AssertionError(f"the consumer gets no records any more: {sweep.hits[-1:]}")


async def _aio_settle(producer: ottla.aio.Producer[Any, Any]) -> None:
    for _ in range(_POLLS):
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
