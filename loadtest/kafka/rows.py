"""What is compared with traffic, as data: each row's program and topic, and its figures with their goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from loadtest.kafka.comparison import ANY, AT_LEAST_AS_MUCH, Figure, Goal
from loadtest.programs import Program


@dataclass(frozen=True, slots=True)
class Row:
    """One program, run against each side in turn; `figures` name it.

    Each run has a topic of its own. With `filled` all read the same one, which is written before.
    """

    program: Program
    figures: tuple[Figure, ...]
    arguments: tuple[str, ...] = ()
    share: float = 1.0  # of the records that are asked for
    count: int = 0  # of records, whatever is asked for
    size: int = 100
    partitions: int = 6
    replicas: int = 1  # as many as there are brokers
    filled: bool = False
    config: Mapping[str, str] = field(default_factory=dict)  # of the topic

    @property
    def key(self) -> str:
        """What `--only` calls it."""
        return self.figures[0].key

    def records(self, asked: int) -> int:
        return self.count or round(asked * self.share)


def _rate(key: str, title: str, goal: Goal = ANY) -> tuple[Figure, ...]:
    return (Figure(key, title, goal),)


def _ms(key: str, title: str, field: str, goal: Goal = ANY) -> Figure:
    return Figure(key, title, goal, field, "ms")


def _transactions(key: str, title: str, goal: Goal) -> Figure:
    return Figure(key, title, goal, "transactions_s", "a second")


_ALL: Final = ("--acks", "all")
_SNAPPY: Final = ("--words", "--config", "compression.type=snappy")
_LOW_LOAD: Final = 1_000  # records: five seconds

ROWS: Final = (
    Row("kafka.produce", _rate("produce_100b", "produce, 100 B", AT_LEAST_AS_MUCH)),
    Row("kafka.produce", _rate("produce_each", "… by produce() a record"), ("--each",), share=0.5),
    Row("kafka.produce", _rate("produce_1kb", "… 1 KB"), share=0.2, size=1000),
    Row("kafka.produce", _rate("produce_small", "… ten records a request"), ("--small-batches",), share=0.1),
    Row("kafka.produce", _rate("produce_8", "… 8 producers"), ("--producers", "8")),
    Row("kafka.produce", _rate("produce_1_partition", "… 1 partition"), partitions=1),
    Row("kafka.produce", _rate("produce_100_partitions", "… 100 partitions"), partitions=100),
    Row("kafka.produce", _rate("produce_snappy", "… words, with snappy"), _SNAPPY, share=0.5),
    Row(
        "kafka.produce",
        _rate("produce_recompressed", "… words, with snappy to a topic with zstd", Goal(least=0.8)),
        _SNAPPY,
        share=0.5,
        config={"compression.type": "zstd"},
    ),
    Row("kafka.perf_test", _rate("perf_test", "… kafka-producer-perf-test"), share=0.5),
    Row("kafka.consume", _rate("consume_100b", "consume, 100 B", AT_LEAST_AS_MUCH), filled=True),
    Row("kafka.consume", _rate("consume_1kb", "… 1 KB"), share=0.2, size=1000, filled=True),
    Row("kafka.consume", _rate("consume_1_partition", "… 1 partition"), partitions=1, filled=True),
    Row("kafka.consume", _rate("consume_100_partitions", "… 100 partitions"), partitions=100, filled=True),
    Row(
        "kafka.latency",
        (
            _ms("p99", "end to end at 200 records/s, p99", "p99_ms", Goal(most=1.5)),
            _ms("p50", "… p50", "p50_ms"),
        ),
        count=_LOW_LOAD,
        partitions=1,
    ),
    Row("kafka.produce", (Figure("memory", "resident after all that", Goal(most=1 / 3), "resident_mb", "MB"),)),
    Row("kafka.produce", _rate("acks_all", "3 brokers: produce, acks=all", Goal(least=0.7)), _ALL, replicas=3),
    Row("kafka.produce", _rate("acks_all_1kb", "… 1 KB"), _ALL, share=0.2, size=1000, replicas=3),
    Row(
        "kafka.latency",
        (
            _ms("acks_all_p99", "… end to end, p99", "p99_ms"),
            _ms("acks_all_p50", "… p50", "p50_ms"),
            Figure("three_memory", "… resident after all that", ANY, "resident_mb", "MB"),
        ),
        _ALL,
        count=_LOW_LOAD,
        partitions=1,
        replicas=3,
    ),
    Row(
        "kafka.transform",
        _rate("txn_transform", "topic to topic, transactions of 1,000 records", Goal(own=Goal(least=100_000))),
        share=0.2,
        filled=True,
    ),
    Row(
        "kafka.transactions",
        _rate("txn_produce", "3 brokers: produce, transactions of 1,000 records", AT_LEAST_AS_MUCH),
        share=0.1,
        replicas=3,
    ),
    Row(
        "kafka.transactions",
        (
            _ms(
                "txn_commit",
                "… commit of 3 partitions and an offset, p50",
                "commit_p50_ms",
                Goal(most=1.0, own=Goal(most=50)),
            ),
        ),
        ("--at-once", "3", "--offsets"),
        count=600,
        partitions=3,
        replicas=3,
    ),
    Row(
        "kafka.transactions",
        (_transactions("txn_many", "… 20 producers, 3 partitions each", AT_LEAST_AS_MUCH),),
        ("--at-once", "3", "--producers", "20"),
        count=6_000,
        partitions=3,
        replicas=3,
    ),
    Row(
        "kafka.transactions",
        (_transactions("txn_many_1", "… 20 producers, 1 partition each", Goal(least=1.0, own=Goal(least=200))),),
        ("--at-once", "1", "--producers", "20", "--one-partition"),
        count=4_000,
        partitions=20,
        replicas=3,
    ),
)
