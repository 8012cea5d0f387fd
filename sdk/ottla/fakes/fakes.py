"""FakeProducer and FakeConsumer: the real clients over brokers in memory, for unit tests of applications.

    cluster = FakeCluster({"orders": 3})
    with FakeProducer(cluster.bootstrap, topic="orders") as producer:
        producer.send({"id": 1}, key="eu")
        assert producer.sent[0].value == {"id": 1}

Serializers, partitioning, batches, offsets, callbacks and errors are those of `ottla`: it is the same code without the
connections. It needs no server, port or disk. A topic that was not created has one partition.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from ottla.aio.arguments import same_arguments
from ottla.client.kafka.apis import PRODUCE
from ottla.client.settings import bootstrap_addresses
from ottla.client.units import Duration
from ottla.consumer.consumer import Consumer
from ottla.errors import ErrorCode, OttlaError, config_error
from ottla.fakes.scripted import Reject, ScriptedCluster
from ottla.generics import K, V
from ottla.machines.accumulator import is_sent_again
from ottla.machines.failures import not_delivered
from ottla.producer.delivery import Delivery, RecordMetadata, ticket_of
from ottla.producer.producer import Producer
from ottla.record import Record
from ottla.serdes.serdes import HeadersLike, header_pairs
from ottla_core.kafka.messages import MetadataRequest, MetadataResponse
from ottla_core.records.record import Header

_numbers: Final = itertools.count(1)


class FakeCluster(ScriptedCluster):
    """An in-memory cluster.

    `bootstrap` is its address: a unique one by default, or the address that your application uses. Fakes that connect
    to this address share the cluster, as long as you keep a reference to it and its `with` block has not ended. Any
    other fake has its own cluster (`fake.cluster`). `topics` maps names to numbers of partitions.
    """

    def __init__(
        self, topics: Mapping[str, int] | None = None, *, bootstrap: str | Sequence[str] | None = None
    ) -> None:
        super().__init__(None)
        self.addresses = bootstrap_addresses(bootstrap or f"fake-{next(_numbers)}:9092")
        self.bootstrap: Final = ",".join(self.addresses)
        for name, partitions in (topics or {}).items():
            self.add_topic(name, partitions)
        with _lock:
            _clusters.update(dict.fromkeys(self.addresses, self))

    def produce(self, topic: str, values: Iterable[Any], **settings: Any) -> list[RecordMetadata]:
        """Send `values`, like `ottla.testing.Cluster.produce`."""
        with FakeProducer[Any, Any](self.bootstrap, topic=topic, **settings) as producer:
            deliveries = [producer.send(value) for value in values]
            return [delivery.result() for delivery in deliveries]

    def read(self, topic: str, **settings: Any) -> list[Record[Any, Any]]:
        """Return all records of the topic, like `ottla.testing.Cluster.read`."""
        with FakeConsumer[Any, Any](
            topic, bootstrap=self.bootstrap, start="earliest", stop="end", **settings
        ) as consumer:
            return list(consumer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Make the cluster unreachable for new fakes. The code that made its clients has to close them."""
        with _lock:
            for address in self.addresses:
                _clusters.pop(address, None)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        for topic in request.topics or ():
            self.add_topic(topic.name or "", 1)
        return super()._metadata(request)


_clusters: WeakValueDictionary[str, FakeCluster] = WeakValueDictionary()
_lock: Final = Lock()


def cluster_at(bootstrap: str | Sequence[str] | None) -> FakeCluster:
    """Return the referenced cluster at that address, else a new one."""
    with _lock:
        found = next((c for c in map(_clusters.get, bootstrap_addresses(bootstrap)) if c is not None), None)
    return found or FakeCluster()


class FakeProducer(Producer[K, V]):
    """An ottla.Producer for an in-memory cluster.

    `sent` lists the records that arrived, and `fail_next` makes a record fail.
    """

    @same_arguments(Producer[K, V])
    def __init__(self, bootstrap: str | Sequence[str] | None = None, **arguments: Any) -> None:
        self.cluster: Final = cluster_at(bootstrap)
        self._handed: list[tuple[Delivery, K | None, V | None, Sequence[Header]]] = []
        self._errors: deque[OttlaError] = deque()
        self._failed: list[_Failed] = []
        self._last_fails = False
        super().__init__(self.cluster.bootstrap, **{**arguments, "_transport": self.cluster.connect})

    def send(
        self,
        value: V | None,
        *,
        key: K | None = None,
        topic: str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Send one record, like `ottla.Producer.send`."""
        pairs = [] if headers is None else header_pairs(headers, topic or "")
        error = self._errors[0] if self._errors else None
        if error is not None or self._last_fails:
            self._sender.flush(self._delivery_s)  # so that it fails alone
        if error is not None:
            code = ErrorCode.INVALID_REQUEST if is_sent_again(error.code) else error.code
            self.cluster.will(PRODUCE, Reject(code, error.message))
        try:
            delivery = super().send(
                value, key=key, topic=topic, partition=partition, headers=pairs, timestamp=timestamp
            )
        except OttlaError:
            self.cluster.forget(PRODUCE)
            raise
        self._last_fails = error is not None
        if error is not None:
            self._errors.popleft()
            self._failed.append(_Failed(delivery, error))
            return self._failed[-1]
        self._handed.append((delivery, key, value, pairs))
        return delivery

    def flush(self, timeout: Duration | None = None) -> None:
        """Send every buffered record and wait, like `ottla.Producer.flush`."""
        super().flush(timeout)
        self._raise_unretrieved()

    def close(self, timeout: Duration | None = None) -> None:
        """Close the producer, like `ottla.Producer.close`."""
        super().close(timeout)
        self._raise_unretrieved()

    @property
    def sent(self) -> list[Record[K, V]]:
        """The records that have arrived, in the order of the sends, with the keys and values that you passed."""
        self._sender.flush(self._delivery_s)
        return [
            Record(*delivery.result(), key, value, list(headers))  # type: ignore[arg-type]  # as they were given
            for delivery, key, value, headers in self._handed
            if delivery.exception() is None
        ]

    def fail_next(self, error: OttlaError) -> None:
        """Make the next record fail with `error`, as if the broker had rejected it. No other record fails."""
        if not isinstance(error, OttlaError):
            raise config_error(
                f"{error!r} is not one of ottla's errors", hint="pass one, such as ottla.TimeoutError(…)"
            )
        self._errors.append(error)

    def _raise_unretrieved(self) -> None:
        unretrieved, self._failed = [failed for failed in self._failed if not failed.awaited], []
        if unretrieved:
            first = unretrieved[0].planned
            raise not_delivered(len(unretrieved), first) from first


class FakeConsumer(Consumer[K, V]):
    """An ottla.Consumer for an in-memory cluster. `cluster.produce(…)` or a FakeProducer provides the records."""

    @same_arguments(Consumer[K, V])
    def __init__(self, *topics: str, bootstrap: str | Sequence[str] | None = None, **arguments: Any) -> None:
        self.cluster: Final = cluster_at(bootstrap)
        super().__init__(*topics, bootstrap=self.cluster.bootstrap, **{**arguments, "_transport": self.cluster.connect})

    def fail_next(self, error: OttlaError) -> None:
        """Make the read that is waiting, or else the next read, raise `error`.

        No record is lost: the following read continues.
        """
        self._fetcher.interrupt(error)
        self._assignment.wake()


class _Failed(Delivery):
    """A record that failed as planned, with the error that the test gave. `awaited`: its outcome was read."""

    __slots__ = ("awaited", "planned")

    def __init__(self, delivery: Delivery, planned: OttlaError) -> None:
        super().__init__(delivery._batch, delivery._index, delivery._timestamp)
        self.planned: Final = planned
        self.awaited = False
        ticket_of(delivery._batch).seen = True  # the fake raises it itself, however fast the response came

    def exception(self, timeout: float | None = None) -> OttlaError | None:
        self.awaited = True
        return super().exception(timeout)

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        self.awaited = True
        super().add_done_callback(callback)

    def on_awaited(self) -> None:
        self.awaited = True

    def _error(self) -> OttlaError | None:
        return self.planned
