"""`ottla.read`: a bounded range of a topic, as a list, a table or a loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal

from ottla.client.security.logins import Login
from ottla.client.security.tls import Tls
from ottla.client.transport import Transport
from ottla.client.units import Duration
from ottla.consumer.batch import Batch
from ottla.consumer.columns import check_columns, to_arrow, to_pandas
from ottla.consumer.consumer import Consumer, Start, Stop
from ottla.generics import K, V
from ottla.record import Record
from ottla.serdes.serdes import DeserializerLike

BATCH_RECORDS: Final = 10_000
"""Records that are turned into columns at a time."""


class Rows(Generic[K, V]):
    """What `ottla.read` returns. Rows are read only when you use them, and each use reads them again.

    Iteration needs memory only for prefetched records; a list or table holds all records in memory.
    """

    def __init__(self, consumer: Callable[[], Consumer[K, V]], columns: Sequence[str] | None) -> None:
        self._consumer = consumer
        self._columns = check_columns(columns)

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Iterate record by record, in order within each partition. Raises like iterating over a Consumer."""
        with self._consumer() as consumer:
            yield from consumer

    def to_list(self) -> list[Record[K, V]]:
        """Return all records. Raises like iterating."""
        return list(self)

    def to_arrow(self) -> Any:
        """Return all records as a pyarrow.Table; see Batch.to_arrow. Needs `pip install 'ottla[arrow]'`."""
        return to_arrow(self.batches(), self._columns)

    def to_pandas(self) -> Any:
        """Return all records as a pandas.DataFrame; see Batch.to_pandas. Needs `pip install 'ottla[arrow]'`."""
        return to_pandas(self.batches(), self._columns)

    def batches(self) -> Generator[Batch[K, V], None, None]:
        """Iterate over the records in batches of up to 10,000. Raises like Consumer.batches."""
        with self._consumer() as consumer:
            yield from consumer.batches(BATCH_RECORDS)


def read(
    topic: str | Sequence[str],
    *,
    start: Start = "earliest",
    stop: Stop = "end",
    bootstrap: str | Sequence[str] | None = None,
    partitions: Sequence[int | tuple[str, int]] | None = None,
    key: DeserializerLike[K] = "auto",
    value: DeserializerLike[V] = "auto",
    columns: Sequence[str] | None = None,
    on_bad_record: Literal["raise", "skip"] = "raise",
    request_timeout: Duration = 30.0,
    login: Login | None = None,
    tls: Tls | bool | None = None,
    config: Mapping[str, Any] | None = None,
    _transport: Transport | None = None,
) -> Rows[K, V]:
    """Return the records of one or more topics from `start` to `stop`. The records are read only when you use them.

        for record in ottla.read("orders", start=timedelta(hours=-1)):
            print(record.key, record.value)

        frame = ottla.read("orders", columns=["key", "value"]).to_pandas()

    Args:
        topic: the name of one topic, or several names.
        start, stop: where to begin and end, as for a Consumer. `start` is "earliest", a datetime, a timedelta (-1 h is
            the last hour) or offsets. `stop` is "end" (the current end of the log), a datetime, a timedelta or a number
            of records.
        columns: the fields of a table; by default all: topic, partition, offset, timestamp, key, value, headers.
            Iteration and `to_list` return whole records.
        bootstrap, partitions, key, value, on_bad_record, request_timeout, login, tls, config: as for a Consumer.

    Raises:
        ConfigError: an argument is not valid. Any other error is raised when the records are used.
    """
    topics = (topic,) if isinstance(topic, str) else topic

    def consumer() -> Consumer[K, V]:
        return Consumer(
            *topics,
            bootstrap=bootstrap,
            partitions=partitions,
            start=start,
            stop=stop,
            key=key,
            value=value,
            on_bad_record=on_bad_record,
            request_timeout=request_timeout,
            login=login,
            tls=tls,
            config=config,
            _transport=_transport,
        )

    consumer().close()  # it has opened nothing; but it has looked at the arguments
    return Rows(consumer, columns)
