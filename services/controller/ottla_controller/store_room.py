"""Watches how full the metadata store is. It warns from 80 % of the quota on, and allows no new partitions from 95 %
on.

An etcd that has reached its quota takes no write at all until an operator makes room: no election, no ISR change. So
requests that make it grow are refused before that. Deleted data counts until etcd is compacted and defragmented.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_controller.journal import Journal
from ottla_core.cluster.store import MetaStore, StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.telemetry import Metrics

LOOK_S: Final = 5.0
WARNED_FROM: Final = 0.80
REFUSED_FROM: Final = 0.95

_DEFAULT_BYTES: Final = 2 << 30
"""The quota of an etcd that was started with 0."""
_MIB: Final = 1 << 20
_HINT: Final = "delete topics, then compact and defragment etcd, or raise its --quota-backend-bytes"

_log = logging.getLogger(__name__)


class StoreRoom:
    """A duty of the active controller. `quota_bytes` is the quota with which etcd was started."""

    def __init__(self, store: MetaStore, quota_bytes: int, metrics: Metrics) -> None:
        self._store = store
        self._quota_bytes: Final = quota_bytes or _DEFAULT_BYTES
        self._size_bytes = 0
        self._warned = False
        metrics.gauge(
            "ottla_controller_store_used_ratio",
            "Size of the metadata store, as a share of its quota.",
            lambda: self._used,
        )

    async def run(self, journal: Journal) -> None:
        """Read the size until the task is cancelled, at the end of the term."""
        while True:
            try:
                self._size_bytes = await self._store.size_bytes(timeout=LOOK_S)
            except StoreUnavailableError as error:
                _log.debug("the metadata store did not report its size: %s", error)
            except Exception:
                _log.exception("reading the size of the metadata store failed, retrying")
            if self._used >= WARNED_FROM and not self._warned:
                _log.warning("%s; at %d %%, no more partitions can be added; %s", self, REFUSED_FROM * 100, _HINT)
            self._warned = self._used >= WARNED_FROM
            await asyncio.sleep(LOOK_S)

    def check(self) -> None:
        """Raise POLICY_VIOLATION if no partitions may be added."""
        if self._used >= REFUSED_FROM:
            raise OttlaError(ErrorCode.POLICY_VIOLATION, f"{self}: no more partitions can be added", hint=_HINT)

    def __str__(self) -> str:
        size, quota = self._size_bytes / _MIB, self._quota_bytes / _MIB
        return f"the metadata store uses {size:,.0f} MiB of its quota of {quota:,.0f} MiB"

    @property
    def _used(self) -> float:
        return self._size_bytes / self._quota_bytes
