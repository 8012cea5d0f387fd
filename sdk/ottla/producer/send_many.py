"""`send_many`: rows in, and one result that says for each row where it is, or why it failed.

A row is a value, a `(key, value)` tuple, a ProducerRecord, or a consumer's Record (its key, value, headers and
timestamp are sent). A row that can't be sent, because it can't be serialized or is too large, fails alone. If nothing
can be sent, because the buffer stayed full or no broker answers, the remaining rows are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple

from ottla.errors import OttlaError, RetriableError, SerializationError
from ottla.machines.batches import ProducerBatch
from ottla.producer.delivery import Delivery, RecordMetadata, outcomes
from ottla.producer.producer_record import ProducerRecord
from ottla.record import Record
from ottla_core.plural import counted

Send = Callable[..., Delivery]

Columns = tuple[list[ProducerBatch], list[int], list[int]]
"""For each delivered row, its batch, its number in the batch, and its timestamp."""


class FailedRow(NamedTuple):
    """A row that was not delivered: its index among the rows (from 0), the row itself, and the error."""

    number: int
    row: Any
    error: OttlaError


class BatchResult:
    """The result of one `send_many` call: `failed` lists the failed rows, `ok` the metadata of the delivered rows.

    A result is truthy if no row failed.
    """

    def __init__(self, delivered: Columns, failed: list[FailedRow]) -> None:
        self.failed: Final = failed
        self._delivered = delivered

    @property
    def ok(self) -> list[RecordMetadata]:
        """The RecordMetadata of the delivered rows, in order, computed on each access."""
        deliveries = map(Delivery, *self._delivered)
        groups = groupby(deliveries, Delivery.batch_key)
        return [metadata for _, group in groups for metadata in outcomes(list(group))[0]]

    def __bool__(self) -> bool:
        return not self.failed

    def __repr__(self) -> str:
        return f"<BatchResult: {len(self._delivered[0])} ok, {len(self.failed)} failed>"


class SentRows:
    """Rows that were passed to `send`, one after the other.

    It holds three numbers for each row instead of its Delivery: long-lived objects make garbage collection expensive.
    """

    def __init__(self, send: Send, rows: Iterable[Any]) -> None:
        self._rows = rows if isinstance(rows, list | tuple) else list(rows)
        self._rejected: dict[int, OttlaError] = {}
        self._batches: list[ProducerBatch] = []
        self._indexes: list[int] = []
        self._timestamps: list[int] = []
        add_batch, add_index, add_timestamp = self._batches.append, self._indexes.append, self._timestamps.append
        last: ProducerBatch | None = None
        for number, row in enumerate(self._rows):
            unpack = _UNPACK.get(type(row))
            try:
                delivery = send(row) if unpack is None else unpack(send, row)
            except OttlaError as error:
                if not isinstance(error, RetriableError):
                    self._rejected[number] = error
                    continue
                self._rejected |= dict.fromkeys(range(number, len(self._rows)), error)
                break
            batch = delivery._batch  # private fields: a call for each row would be too slow
            add_batch(batch)
            add_index(delivery._index)
            add_timestamp(delivery._timestamp)
            if batch is not last:
                last = batch
                delivery.on_awaited()

    def result(self) -> BatchResult:
        """Wait for the outcomes, and return them."""
        batches = dict.fromkeys(self._batches)
        for batch in batches:
            Delivery(batch, 0, 0).exception()  # waits for the outcome
        columns = self._batches, self._indexes, self._timestamps
        if not self._rejected and all(batch.error is None for batch in batches):
            return BatchResult(columns, [])
        errors: dict[ProducerBatch, OttlaError | None] = {}  # one object for all records that failed together
        sent = zip(*columns, strict=True)
        delivered: Columns = [], [], []
        failed: list[FailedRow] = []
        for number, row in enumerate(self._rows):
            error = self._rejected.get(number)
            if error is None:
                batch, index, timestamp = next(sent)
                part, _ = batch.part_with(index)
                if part not in errors:
                    errors[part] = Delivery(part, 0, 0).exception()
                error = errors[part]
            if error is None:
                delivered[0].append(batch)
                delivered[1].append(index)
                delivered[2].append(timestamp)
            else:
                failed.append(FailedRow(number, row, error))
        return BatchResult(delivered, failed)


def _pair(send: Send, row: tuple[Any, ...]) -> Delivery:
    if len(row) != 2:
        raise SerializationError(
            f"a row must be a (key, value) tuple, but this one has {counted(len(row), 'item')}",
            hint="pass a key and a value, or a ProducerRecord",
        )
    return send(row[1], key=row[0])


def _record(send: Send, row: ProducerRecord[Any, Any]) -> Delivery:
    arguments = row.arguments()
    if row.topic is None:
        del arguments["topic"]
    return send(row.value, **arguments)


def _consumed(send: Send, row: Record[Any, Any]) -> Delivery:
    return send(row.value, key=row.key, headers=row.headers, timestamp=row.timestamp if row.timestamp >= 0 else None)


_UNPACK: Final[dict[type, Callable[[Send, Any], Delivery]]] = {tuple: _pair, ProducerRecord: _record, Record: _consumed}
