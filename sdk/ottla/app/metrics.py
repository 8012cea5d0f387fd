"""The metrics of an App."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.app.worker import Worker

METRICS: Final = {
    "records-handled-total": "records whose handler returned",
    "records-retried-total": "failed attempts that were, or will be, followed by another attempt",
    "records-dead-lettered-total": "records that were written to a dead-letter topic instead",
    "records-in-flight": "records that were read and are not finished: waiting, running, or to be tried again",
    "handlers-running": "handlers that run at the moment",
}
"""Names and meanings. Totals count since the last start of the App."""


def metrics_of(workers: Iterable[Worker]) -> dict[str, float]:
    """Return the current values of METRICS, summed over the handlers."""
    running = list(workers)
    return {
        "records-handled-total": float(sum(worker.attempts.handled for worker in running)),
        "records-retried-total": float(sum(worker.attempts.retried for worker in running)),
        "records-dead-lettered-total": float(sum(worker.attempts.dead_lettered for worker in running)),
        "records-in-flight": float(sum(worker.lanes.count for worker in running)),
        "handlers-running": float(sum(worker.lanes.running for worker in running)),
    }
