"""The VerifiableConsumer of Kafka's own system tests."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from peers.kafka.tools import command, run_tool
from tests.compat.group_judges.place import PARTITIONS, RECORDS, Facts, Place
from waiting import wait_until

_END_S: Final = 120.0


def verifiable_consumer_alone(place: Place) -> Facts:
    """One consumer reads so many records, commits them and ends."""
    topic = place.topic()
    told = run_tool("kafka-verifiable-consumer", *_verifiable(place, topic), "--max-messages", str(RECORDS))
    events = [json.loads(line) for line in told.splitlines()]
    return {
        "events": list(dict.fromkeys(event["name"] for event in events)),
        "assigned": _partitions(events, "partitions_assigned"),
        "consumed": sum(event["count"] for event in events if event["name"] == "records_consumed"),
        "committed": _committed(events),
    }


def verifiable_consumers_together(place: Place) -> Facts:
    """A second consumer takes its share from the first one, and gives it back as it ends."""
    topic = place.topic()
    with ExitStack() as running:
        first = running.enter_context(Verifiable(place, topic))
        wait_until(lambda: len(first.has()) == PARTITIONS)
        second = running.enter_context(Verifiable(place, topic))
        wait_until(lambda: len(first.has()) == len(second.has()) == PARTITIONS // 2)
        second.end()
        wait_until(lambda: len(first.has()) == PARTITIONS)
        wait_until(lambda: first.consumed() + second.consumed() >= RECORDS)
        first.end()
        events = (*first.events, *second.events)
    return {
        "revoked of the first": bool(_partitions(first.events, "partitions_revoked")),
        "failed commits": [e["error"] for e in events if e["name"] == "offsets_committed" and not e["success"]],
        "committed": _committed(events),
        "ended": [events[-1]["name"] for events in (first.events, second.events)],
    }


class Verifiable:
    """A VerifiableConsumer that runs until `end`."""

    def __init__(self, place: Place, topic: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._output = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - __exit__ ends it
        self._process = subprocess.Popen(
            command("kafka-verifiable-consumer", _verifiable(place, topic)),
            stdout=self._output,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    def has(self) -> set[int]:
        """The partitions that it has now."""
        now: set[int] = set()
        for event in self._told():
            numbers = {p["partition"] for p in event.get("partitions", ()) if isinstance(p, dict)}
            if event["name"] == "partitions_assigned":
                now |= numbers
            elif event["name"] == "partitions_revoked":
                now -= numbers
        return now

    def consumed(self) -> int:
        return sum(event["count"] for event in self._told() if event["name"] == "records_consumed")

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_END_S)
        self._told()

    def _told(self) -> list[dict[str, Any]]:
        lines = Path(self._output.name).read_text().splitlines(keepends=True)
        self.events = [json.loads(line) for line in lines if line.endswith("\n")]
        return self.events


def _verifiable(place: Place, topic: str) -> list[str]:
    connection = ["--bootstrap-server", place.bootstrap, "--topic", topic, "--group-id", f"group-of-{topic}"]
    return [
        *connection,
        "--group-protocol",
        "consumer",
        "--group-remote-assignor",
        "range",
        "--reset-policy",
        "earliest",
    ]


def _partitions(events: Sequence[Mapping[str, Any]], name: str) -> list[int]:
    return sorted(p["partition"] for event in events if event["name"] == name for p in event["partitions"])


def _committed(events: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The highest offset of each partition that was committed."""
    found: dict[str, int] = {}
    for event in events:
        for offset in event["offsets"] if event["name"] == "offsets_committed" and event["success"] else ():
            partition = str(offset["partition"])
            found[partition] = max(found.get(partition, 0), offset["offset"])
    return dict(sorted(found.items()))
