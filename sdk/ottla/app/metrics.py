"""The metrics of an App."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.app.worker import Worker

METRICS: Final = {
    "records-handled-total": "records whose handler returned",
    "records-retried-total": "failed attempts that the app has retried or will retry",
    "records-dead-lettered-total": "records written to a dead-letter topic",
    "records-in-flight": "records that were read but are not finished: waiting, running, or due for a retry",
    "handlers-running": "handlers that are running now",
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
