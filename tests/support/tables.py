"""What tests of tables do: topics with records that have keys, and changes to compare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ottla
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer


def send(cluster: ScriptedCluster, records: Iterable[tuple[Any, Any]], **arguments: Any) -> Any:
    """To partition 0 unless told otherwise; where the last one is."""
    place = {"partition": 0, **arguments}
    with Producer[Any, Any]("b0:1", topic="t", _transport=cluster.connect) as producer:
        return [producer.send(value, key=key, **place) for key, value in records][-1].result(10)


def filled(records: Iterable[tuple[Any, Any]], *, partitions: int = 1) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": partitions})
    send(cluster, records)
    return cluster


def seen(change: ottla.Change[Any, Any] | None) -> tuple[Any, Any, Any, int, int]:
    assert change is not None
    return change.key, change.old, change.value, change.partition, change.offset


def take_first(watch: ottla.Watch[Any, Any]) -> None:
    """Another thread takes its next change, just before the one that has seen it."""
    take = watch.take

    def late() -> None:
        watch.take = take  # type: ignore[method-assign]  # a stand-in
        assert take() is not None

    watch.take = late  # type: ignore[method-assign]  # a stand-in
