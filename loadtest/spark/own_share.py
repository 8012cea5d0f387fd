"""How much of a trickle's micro-batch is spent in our code: while Spark plans it, and in its tasks."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark_ottla.options import read_options
from pyspark_ottla.source import OttlaDataSource
from pyspark_ottla.stream_reader import OttlaStreamReader

NAME: Final = "ottla_timed"
_PLANS: Final = ("latestOffset", "reportLatestOffset", "partitions", "commit")
_TASK: Final = "read"


def timed_source(directory: Path) -> type[OttlaDataSource]:
    """The data source, each call of which leaves its time in a file of that directory, in whatever process it is.

    Its classes are made here, so that Spark takes their code to its workers.
    """

    @contextmanager
    def timed(call: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        with (directory / f"{os.getpid()}.txt").open("a") as file:
            file.write(f"{call} {1000 * (time.perf_counter() - began):.3f}\n")

    def plan(call: str) -> Callable[..., Any]:
        def planned(self: OttlaStreamReader, *arguments: Any) -> Any:
            with timed(call):
                return getattr(OttlaStreamReader, call)(self, *arguments)

        return planned

    def read(self: OttlaStreamReader, partition: Any) -> Iterator[Any]:
        with timed(_TASK):
            yield from OttlaStreamReader.read(self, partition)

    def stream_reader(self: OttlaDataSource, schema: Any) -> Any:
        return reader(read_options(self.options, streaming=True), schema)

    reader: Any = type("Reader", (OttlaStreamReader,), {_TASK: read, **{call: plan(call) for call in _PLANS}})
    return type("Source", (OttlaDataSource,), {"name": classmethod(lambda _: NAME), "streamReader": stream_reader})


def times_ms(directory: Path) -> Mapping[str, float]:
    """The median of each call."""
    found: dict[str, list[float]] = defaultdict(list)
    for path in directory.glob("*.txt"):
        for line in path.read_text().splitlines():
            call, _, taken = line.partition(" ")
            found[call].append(float(taken))
    return {call: statistics.median(each) for call, each in found.items()}


def own_share_ms(times: Mapping[str, float], tasks: int, at_once: int) -> float:
    """Return our share of a micro-batch with `tasks` tasks, `at_once` of which run at a time."""
    return sum(times.get(call, 0.0) for call in _PLANS) + times[_TASK] * tasks / at_once
