"""The producers of this process, kept from one task to the next: Spark's Python workers live for many of them.

A task has its producer for itself, so what its flush says is about its own rows. After a task that failed its producer
goes, with all that it still held; after one that did not it waits for the next task for a while.
"""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator, Mapping
from threading import Lock, Timer
from typing import Any, Final, TypeAlias

import ottla
from ottla.connect import check_config
from ottla.errors import OttlaError
from pyspark_ottla.options import WriteOptions

IDLE_S: Final = 60.0
"""As long as Spark keeps a worker that has nothing to do."""

BytesProducer: TypeAlias = "ottla.Producer[bytes, bytes]"


def check_settings(options: WriteOptions) -> None:
    """Raise ConfigError for settings that no producer can have."""
    check_config(_config(options))


def new_producer(options: WriteOptions, transactional_id: str | None = None) -> BytesProducer:
    """One with these settings."""
    config = _config(options)
    return ottla.Producer(
        options.bootstrap, key="bytes", value="bytes", transactional_id=transactional_id, config=config
    )


def driver_producer(options: WriteOptions, transactional_id: str) -> ottla.Producer[str, str]:
    """That of a query's driver."""
    config = {"max.block.ms": _config(options)["max.block.ms"], "linger.ms": "0", "client.id": transactional_id}
    return ottla.Producer(options.bootstrap, key="str", value="str", transactional_id=transactional_id, config=config)


def _config(options: WriteOptions) -> Mapping[str, str]:
    """Idempotent; it waits for room as long as for an outcome, so that brokers may be away for that long."""
    patience_ms = options.client.get("delivery.timeout.ms", "120000")
    return {"enable.idempotence": "true", "max.block.ms": patience_ms, **options.client}


class ProducerPool:
    """Lends producers, one to a task. Thread-safe."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s: Final = idle_s
        self._lock: Final = Lock()
        self._idle: dict[Any, tuple[BytesProducer, Timer]] = {}

    @contextlib.contextmanager
    def lent(self, options: WriteOptions) -> Iterator[BytesProducer]:
        """A producer with these settings, until the block ends: in order, or with what made the task fail."""
        settings = options.bootstrap, frozenset(options.client.items())
        producer = self._take_idle(settings) or new_producer(options)
        try:
            yield producer
        except BaseException:
            _end(producer)
            raise
        self._put_back(settings, producer)

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for producer, timer in idle.values():
            timer.cancel()
            _end(producer)

    def _take_idle(self, settings: Any) -> BytesProducer | None:
        with self._lock:
            producer, timer = self._idle.pop(settings, (None, None))
        if timer is not None:
            timer.cancel()
        return producer

    def _put_back(self, settings: Any, producer: BytesProducer) -> None:
        timer = Timer(self._idle_s, self._on_idle, [settings, producer])
        timer.daemon = True
        with self._lock:
            is_one_more = settings in self._idle
            if not is_one_more:
                self._idle[settings] = producer, timer
                timer.start()
        if is_one_more:
            _end(producer)

    def _on_idle(self, settings: Any, producer: BytesProducer) -> None:
        with self._lock:
            if self._idle.get(settings, (None, None))[0] is not producer:
                return
            del self._idle[settings]
        _end(producer)


def _end(producer: BytesProducer) -> None:
    with contextlib.suppress(OttlaError):  # nothing waits in it, or its task has failed already
        producer.close(0)


PRODUCER_POOL: Final = ProducerPool()
"""This process's."""

atexit.register(PRODUCER_POOL.close)
