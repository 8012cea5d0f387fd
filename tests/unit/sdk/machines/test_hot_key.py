"""One key above half of a producer's bytes: one warning, which names the key and what to do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.fakes.scripted import ScriptedCluster
from ottla.machines.hot_key import SAMPLES, HotKeyWatch
from ottla.producer.producer import Producer


def fed(*batches: tuple[bytes | None, int], rounds: int = SAMPLES) -> list[bytes]:
    watch = HotKeyWatch()
    found = [watch.on_batch(*batch) for _ in range(rounds) for batch in batches]
    return [key for key in found if key is not None]


@pytest.mark.feature(27)
def test_more_than_half_of_the_bytes_is_told_once_and_half_is_not() -> None:
    assert fed((b"hot", 101), (b"a", 100)) == [b"hot"]
    assert fed((b"a", 100), (b"b", 100)) == []
    assert fed((b"a", 100), (b"a", 100), (None, 220)) == []
    assert fed((b"hot", 60_000), *[(b"small", 1000)] * 9) == [b"hot"]
    assert fed((b"hot", 1), rounds=SAMPLES - 1) == []


@pytest.mark.feature(27)
def test_memory_is_bounded_and_a_key_that_becomes_hot_later_is_found() -> None:
    watch = HotKeyWatch()
    for n in range(10 * SAMPLES):
        assert watch.on_batch(b"%d" % n, 100) is None
        assert len(watch._bytes_by_key) <= SAMPLES
    assert [watch.on_batch(b"hot", 100) for _ in range(SAMPLES)][-1] == b"hot"


@pytest.mark.feature(27)
@pytest.mark.parametrize(
    ("partitions", "arguments", "warnings"),
    [(3, {}, 1), (1, {}, 0), (3, {"partitioner": "round_robin"}, 0)],
)
def test_a_producer_warns_where_the_key_decides(
    partitions: int, arguments: dict[str, Any], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ScriptedCluster({"t": partitions})
    producer = Producer("b0:1", topic="t", key="str", batch_size=200, _transport=cluster.connect, **arguments)
    with caplog.at_level(logging.WARNING, "ottla.producer"), producer:
        for n in range(3 * SAMPLES):
            producer.send("x" * 150, key=str(n) if n % 4 == 0 else "customer-1")
            producer.flush()  # otherwise batches grow, and a few samples represent them
    assert len(caplog.records) == warnings
    if warnings:
        text = caplog.records[0].getMessage()
        assert text.startswith("more than half of the bytes are in records with the key b'customer-1' (murmur2 0x")
        assert "Use a key with more distinct values" in text
