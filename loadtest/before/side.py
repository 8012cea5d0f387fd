"""`python -m loadtest.before.side DIRECTORY`: a stack of the product that PYTHONPATH names, measured on command.

Each line of the input is a program's name and a number of records; each is answered by a line of JSON on what was the
standard output. The programs are this commit's, whichever commit's product they run against.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from peers.spark.session import spark

import ottla
from loadtest.kafka.sides import Side, side_of
from loadtest.kafka.traffic import observed
from loadtest.programs import Program, run
from loadtest.rows.group_calls import GroupCalls
from loadtest.rows.groups import commits_at, make_topic
from loadtest.spark import rates
from loadtest.spark.sides import PARTITIONS
from loadtest.spark.sides import Side as SparkSide
from ottla_stack.running import RunningStack

_READ: Final = "read"
_COMMITS_A_SECOND: Final = 500
_COMMIT_SECONDS: Final = 5.0
_SMALL_TRANSACTIONS: Final = 500


class Programs:
    """Each measures the one stack once, with topics of its own."""

    def __init__(self, stack: RunningStack, stays: ExitStack) -> None:
        self._stack = stack
        self._stays = stays
        self._side: Final[Side] = side_of(stack)
        self._runs = 0

    def run(self, program: str, records: int) -> dict[str, Any]:
        measure: Callable[[int], dict[str, Any]] = getattr(self, program)
        self._runs += 1
        os.sync()  # so that nobody runs while the disk still writes what the other has left
        found = measure(records)
        if "cpu_s" in found:
            found["cpu_s_per_million"] = found["cpu_s"] / found["records"] * 1e6
        return found

    def sdk_produce(self, records: int) -> dict[str, Any]:
        return self._produced("rows.produce", self._stack.bootstrap, records)

    def kafka_produce(self, records: int) -> dict[str, Any]:
        return self._produced("kafka.produce", self._side.bootstrap, records)

    def sdk_consume(self, records: int, *options: str) -> dict[str, Any]:
        arguments = ("--topic", self._filled(records), *options)
        return _whole(observed(self._side, "rows.consume", self._stack.bootstrap, *arguments))

    def sdk_batches(self, records: int) -> dict[str, Any]:
        return self.sdk_consume(records, "--batches")

    def first_produce(self, records: int) -> dict[str, Any]:
        """Send one record from a fresh process."""
        return dict(run("rows.first_produce", self._stack.bootstrap, "--topic", self._topic(partitions=1)))

    def kafka_consume(self, records: int) -> dict[str, Any]:
        arguments = ("--topic", self._filled(records), "--records", str(records))
        return observed(self._side, "kafka.consume", self._side.bootstrap, *arguments)

    def latency(self, records: int) -> dict[str, Any]:
        topic = self._topic(partitions=1, replicas=3)
        return observed(self._side, "kafka.latency", self._side.bootstrap, "--topic", topic, "--acks", "all")

    def commits(self, records: int) -> dict[str, Any]:
        async def at_rate() -> dict[str, float]:
            async with GroupCalls(self._stack) as calls:
                await asyncio.gather(*(calls.until_served(f"commits-{n}") for n in range(200)))
                await commits_at(calls, _COMMITS_A_SECOND, 1.0)
                return await commits_at(calls, _COMMITS_A_SECOND, _COMMIT_SECONDS)

        make_topic(self._stack.bootstrap)
        return dict(asyncio.run(at_rate()))

    def transactions(self, records: int) -> dict[str, Any]:
        """Run small transactions: twenty producers at once, each with a record for each of three partitions."""
        topic = self._topic(partitions=3, replicas=3)
        arguments = ("--topic", topic, "--records", str(_SMALL_TRANSACTIONS * 3), "--at-once", "3", "--producers", "20")
        return observed(self._side, "kafka.transactions", self._side.bootstrap, *arguments)

    def spark_read(self, records: int) -> dict[str, Any]:
        rows = self._spark_side.read(self._session, self._filled(records))
        return rates.timed(self._session, records, rows.write.format("noop").mode("overwrite").save)

    def spark_write(self, records: int) -> dict[str, Any]:
        rows = rates.rows_to_write(self._session, records)
        topic = self._topic(partitions=PARTITIONS)
        return rates.timed(self._session, records, partial(self._spark_side.write, rows, topic))

    @cached_property
    def _session(self) -> Any:
        return self._stays.enter_context(spark())

    @property
    def _spark_side(self) -> SparkSide:
        return SparkSide("ottla", self._stack.bootstrap)

    def _produced(self, program: Program, bootstrap: str, records: int) -> dict[str, Any]:
        found = observed(self._side, program, bootstrap, "--topic", self._topic(), "--records", str(records))
        return _whole({"records": records, **found})

    def _topic(self, partitions: int = 6, replicas: int = 1) -> str:
        name = f"run-{self._runs}"
        self._side.create_topic(name, partitions, replicas)
        return name

    def _filled(self, records: int) -> str:
        """A topic of so many records, made the first time."""
        name = f"{_READ}-{records}"
        with ottla.Admin(self._stack.bootstrap) as admin:
            if name not in admin.topics.list():
                rates.fill(SparkSide("ottla", self._stack.bootstrap), name, records)
        return name


def _whole(found: dict[str, Any]) -> dict[str, Any]:
    """With the SDK client's CPU, which is the product's too."""
    return found | {"cpu_s": found["cpu_s"] + found.get("client_cpu_s", 0.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    given = parser.parse_args()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Spark prints is no answer
    with ExitStack() as stays:
        stack = stays.enter_context(RunningStack(given.directory, brokers=3, group_coordinators=1, txn_coordinators=1))
        programs = Programs(stack, stays)
        print(json.dumps({"product": str(Path(ottla.__file__).parents[2])}), file=answers)
        for line in sys.stdin:
            program, records = line.split()
            print(json.dumps(programs.run(program, int(records))), file=answers)


if __name__ == "__main__":
    main()
