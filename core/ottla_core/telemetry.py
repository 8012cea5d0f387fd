"""Metrics as plain numbers, and the logging of a process.

A counter on a hot path is one integer addition, and prometheus-client sees it only at a scrape (`admin_http`). Names
are `ottla_…` with base units last (`_seconds`, `_bytes`, `_total`). There are few labels.
"""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla_core.text.line_formatter import LineFormatter

LATENCY_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counter:
    """A number that only grows: `counter.value += n`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    """Counts per bucket of seconds, and their sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BUCKETS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


Labels = tuple[tuple[str, str], ...]
Sample = Counter | Histogram | Callable[[], float]


class Table(NamedTuple):
    """Series that come and go. `read` returns all of them, by the values of `labels`. They are gauges, or counters if
    `counts` is set."""

    help: str
    labels: tuple[str, ...]
    read: Callable[[], Mapping[tuple[str, ...], float]]
    counts: bool = False


class Metrics:
    """The metrics of one process. Asking twice for the same name and labels returns the same counter."""

    def __init__(self) -> None:
        self.help: Final[dict[str, str]] = {}
        self.samples: Final[dict[str, dict[Labels, Sample]]] = {}
        self.tables: Final[dict[str, Table]] = {}

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        sample = self._sample(name, help_text, labels, Counter)
        assert isinstance(sample, Counter)
        return sample

    def histogram(self, name: str, help_text: str, **labels: str) -> Histogram:
        sample = self._sample(name, help_text, labels, Histogram)
        assert isinstance(sample, Histogram)
        return sample

    def gauge(self, name: str, help_text: str, read: Callable[[], float], **labels: str) -> None:
        """Add a number that is read at each scrape."""
        self.help[name] = help_text
        self.samples.setdefault(name, {})[tuple(sorted(labels.items()))] = read

    def table(self, name: str, table: Table) -> None:
        """Add many numbers of one name. They are read at each scrape, on its thread, so they must come from memory."""
        self.tables[name] = table

    def _sample(self, name: str, help_text: str, labels: dict[str, str], make: type[Counter | Histogram]) -> Sample:
        self.help[name] = help_text
        by_labels = self.samples.setdefault(name, {})
        key = tuple(sorted(labels.items()))
        if key not in by_labels:
            by_labels[key] = make()
        return by_labels[key]


def configure_logging(service: str, *, level: str = "INFO", json_lines: bool | None = None) -> None:
    """Log to stderr, with one JSON object a line in containers and files, and with plain lines on a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    if json_lines is None:
        json_lines = not sys.stderr.isatty()
    if json_lines:
        from pythonjsonlogger.json import JsonFormatter

        handler.setFormatter(
            JsonFormatter(
                "{asctime}{levelname}{name}{message}",
                style="{",
                rename_fields={"asctime": "ts", "levelname": "level", "name": "logger", "message": "event"},
                static_fields={"service": service},
            )
        )
    else:
        handler.setFormatter(LineFormatter(f"%(asctime)s %(levelname)-7s {service} %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
