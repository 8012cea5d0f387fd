"""Gets producer ids for one producer in the background, from the first broker that answers (InitProducerId)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import INIT_PRODUCER_ID
from ottla.client.kafka.exchange import Exchange
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.kafka.messages import InitProducerIdRequest
from ottla_core.rpc.retry import Backoff

logger = logging.getLogger("ottla.producer")


class ProducerIdSource:
    """`on_id` gets each new id, `on_failure` each failure; a failure that is not retriable is the last."""

    def __init__(
        self,
        cluster: ClusterClient,
        timeout: float,
        on_id: Callable[[int], None],
        on_failure: Callable[[OttlaError], None],
    ) -> None:
        self._cluster: Final = cluster
        self._timeout: Final = timeout
        self._on_id: Final = on_id
        self._on_failure: Final = on_failure
        self._lock: Final = Lock()
        self._thread: Thread | None = None
        self._closed: Final = Event()

    def request(self) -> None:
        """Request another id for `on_id`, unless a request is under way. Does not block."""
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = Thread(target=self._run, name="ottla-producer-id", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Request no more ids. A call that is under way ends with the cluster's connections."""
        self._closed.set()

    def _run(self) -> None:
        backoff = Backoff()
        while not self._closed.is_set():
            try:
                producer_id = self._fetch()
            except Exception as bug:
                error = bug if isinstance(bug, OttlaError) else error_from_code(ErrorCode.NETWORK_EXCEPTION, repr(bug))
                logger.debug("can't get a producer id: %s", error)
                if not error.retriable:
                    self._done()
                    self._on_failure(error)
                    return
                self._on_failure(error)
                self._closed.wait(backoff.next())
            else:
                self._done()
                self._on_id(producer_id)
                return

    def _fetch(self) -> int:
        return self._cluster.exchange_any(new_producer_id(), timeout=self._timeout)

    def _done(self) -> None:
        """Allow another request."""
        with self._lock:
            self._thread = None


def new_producer_id() -> Exchange[int]:
    """Return the exchange that asks for a producer id without a transactional id. Any broker can give one."""
    return Exchange(
        INIT_PRODUCER_ID,
        lambda terms: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=terms.timeout_ms),
        lambda response: max(0, response.producer_id),
    )
