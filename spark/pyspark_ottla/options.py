"""The options of a read or a write: those of Spark's own Kafka source and sink, with their names and defaults.

Spark hands them over with their names in lower case. One table a direction says what there is; a name that is in none
is refused with the nearest that is, and what can't be combined is refused in words. Nothing is ignored silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.connect import CONSUMER_NAMES, PRODUCER_NAMES, check_topic, size_bytes
from ottla.errors import config_error
from ottla_core.model import TopicPartition
from pyspark_ottla.given import Given
from pyspark_ottla.machines.admission import Limits
from pyspark_ottla.machines.offsets import EARLIEST, ID, LATEST, Bound

READ_OPTIONS: Final = (
    "kafka.bootstrap.servers",
    "assign",
    "subscribe",
    "subscribePattern",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "commitOffsets",
)
"""All of a source but `kafka.*`; `maxBytesPerTrigger` and `commitOffsets` are ours."""

WRITE_OPTIONS: Final = ("kafka.bootstrap.servers", "topic", "includeHeaders", "delivery")
"""All of a sink but `kafka.*`; `delivery` is ours.

`includeHeaders` is taken and changes nothing, as in Spark's own sink: a column of headers is written.
"""

_STREAMING_ONLY: Final = frozenset(
    ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "commitOffsets"]
)
_BATCH_ONLY: Final = frozenset(["endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read: exactly one of names, a pattern to be found in names, and single partitions."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return (
            f"topics matching {self.pattern}" if self.pattern else ", ".join(self.topics or map(str, self.partitions))
        )

    def covers(self, partition: TopicPartition) -> bool:
        """Whether that partition would be read if it existed."""
        if self.pattern:
            return re.search(self.pattern, partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A source's options, checked. Times in seconds, `client` under Kafka's names."""

    bootstrap: str
    wanted: Wanted
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    limits: Limits
    min_partitions: int | None
    max_records_per_partition: int | None
    client_id: str
    include_headers: bool
    poll_timeout_s: float
    fetch_offset_retries: int
    fetch_offset_interval_s: float
    commit_group: str
    client: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A sink's options, checked; `topic` is "" where the rows say it. `client` under Kafka's names."""

    bootstrap: str
    topic: str
    client: Mapping[str, str]


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """The options of a source. Raises ConfigError for what can't be, with the remedy."""
    options = Given(given, READ_OPTIONS, CONSUMER_NAMES)
    options.refuse(_BATCH_ONLY if streaming else _STREAMING_ONLY, "batch" if streaming else "streaming")
    wanted = _wanted(options)
    group = options.text("kafka.group.id", "")
    client_id = options.client.pop("client.id", "")
    return ReadOptions(
        bootstrap=options.bootstrap(),
        wanted=wanted,
        starting=_starting(options, wanted, streaming=streaming),
        ending=_ending(options, wanted),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        limits=_limits(options),
        min_partitions=options.number("minPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        client_id=client_id or group or options.text("groupIdPrefix", "spark-ottla-source"),
        include_headers=options.flag("includeHeaders", False),
        poll_timeout_s=options.milliseconds("kafkaConsumer.pollTimeoutMs", 120_000),
        fetch_offset_retries=options.number("fetchOffset.numRetries", least=0, default=3) or 0,
        fetch_offset_interval_s=options.milliseconds("fetchOffset.retryIntervalMs", 1_000),
        commit_group=options.text("commitOffsets", ""),
        client=options.client,
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a sink. Raises ConfigError for what can't be, with the remedy."""
    options = Given(given, WRITE_OPTIONS, PRODUCER_NAMES)
    if options.choice("delivery", ("at_least_once", "exactly_once"), "at_least_once") == "exactly_once":
        raise config_error(
            "delivery=exactly_once can't be had yet: it needs transactions",
            hint="leave delivery out: a row is never lost, and may repeat where a task is retried",
        )
    topic = options.text("topic", "")
    if topic:
        check_topic(topic)
    if (acks := options.client.get("acks", "all")) not in ("all", "-1"):
        raise config_error(
            f"kafka.acks={acks} can't be had: the sink's producers are always idempotent, and that needs acks=all",
            hint="leave kafka.acks out: a row counts as written once every in-sync replica has it",
        )
    options.flag("includeHeaders", False)
    return WriteOptions(options.bootstrap(), topic, options.client)


def wants_headers(given: Mapping[str, str]) -> bool:
    """Whether a source's columns include the headers. Raises ConfigError."""
    return Given(given, (*READ_OPTIONS, *WRITE_OPTIONS), CONSUMER_NAMES | PRODUCER_NAMES).flag("includeHeaders", False)


def _wanted(options: Given) -> Wanted:
    strategies = [name for name in ("assign", "subscribe", "subscribePattern") if options.has(name)]
    if len(strategies) != 1:
        raise config_error(
            f"{' and '.join(strategies)} are given" if strategies else "nothing says what to read",
            hint="give exactly one of subscribe, subscribePattern and assign",
        )
    if strategies == ["subscribe"]:
        topics = tuple(dict.fromkeys(name.strip() for name in options.text("subscribe", "").split(",") if name.strip()))
        if not topics:
            raise config_error("subscribe names no topic", hint="give names, separated by commas")
        for topic in topics:
            check_topic(topic)
        return Wanted(topics=topics)
    if strategies == ["subscribePattern"]:
        pattern = options.text("subscribePattern", "")
        try:
            re.compile(pattern)
        except re.error as error:
            raise config_error(
                f"subscribePattern={pattern} is no regular expression: {error}", hint="as Python's re reads it"
            ) from None
        return Wanted(pattern=pattern)
    told = options.json("assign")
    if not (isinstance(told, dict) and told and all(isinstance(numbers, list) for numbers in told.values())):
        raise config_error("assign can't be read", hint='give JSON, such as {"orders": [0, 1]}')
    pairs = [(topic, number) for topic, numbers in told.items() for number in numbers]
    if not pairs or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for _, n in pairs):
        raise config_error("assign names no partitions", hint='give JSON, such as {"orders": [0, 1]}')
    return Wanted(partitions=tuple(sorted({TopicPartition(*pair) for pair in pairs})))


def _starting(options: Given, wanted: Wanted, *, streaming: bool) -> Bound:
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    bound = _bound(options, "starting", wanted, or_latest=strategy == "latest")
    if bound is not None:
        if not streaming and (bound.otherwise == LATEST or LATEST in bound.offsets.values()):
            raise config_error(
                "a batch query that starts at latest reads nothing", hint="use earliest, offsets or a timestamp"
            )
        return bound
    return Bound(otherwise=LATEST if streaming else EARLIEST)


def _ending(options: Given, wanted: Wanted) -> Bound:
    bound = _bound(options, "ending", wanted, or_latest=True)
    if bound is None:
        return Bound(otherwise=LATEST)
    if bound.otherwise == EARLIEST or EARLIEST in bound.offsets.values():
        raise config_error("a query can't end at earliest", hint="use latest, offsets or a timestamp")
    return bound


def _bound(options: Given, which: str, wanted: Wanted, *, or_latest: bool) -> Bound | None:
    """`startingTimestamp` beats `startingOffsetsByTimestamp`, and that `startingOffsets`."""
    if options.has(f"{which}Timestamp"):
        at_ms = options.number(f"{which}Timestamp", least=0)
        return Bound(timestamp_ms=at_ms, or_latest=or_latest)
    if options.has(f"{which}OffsetsByTimestamp"):
        times_ms = _by_partition(options, f"{which}OffsetsByTimestamp", wanted, least=0)
        return Bound(timestamps_ms=times_ms, or_latest=or_latest)
    name = f"{which}Offsets"
    if not options.has(name):
        return None
    word = options.text(name, "").lower()
    if word in ("earliest", "latest"):
        return Bound(otherwise=EARLIEST if word == "earliest" else LATEST)
    return Bound(offsets=_by_partition(options, name, wanted, least=EARLIEST))


def _by_partition(options: Given, name: str, wanted: Wanted, *, least: int) -> dict[TopicPartition, int]:
    told = options.json(name)
    by_partition: dict[TopicPartition, int] = {}
    for topic, numbers in told.items() if isinstance(told, dict) else [("", None)]:
        for number, at in numbers.items() if isinstance(numbers, dict) else [("", None)]:
            if number == ID:
                continue  # the offsets are those that a query's progress tells
            if not str(number).isdigit() or not isinstance(at, int) or isinstance(at, bool) or at < least:
                raise config_error(
                    f"{name} can't be read: {json.dumps(told)}", hint='give JSON, such as {"orders": {"0": 23, "1": 0}}'
                )
            by_partition[TopicPartition(topic, int(number))] = at
    if not by_partition:
        raise config_error(f"{name} names no partition", hint='give JSON, such as {"orders": {"0": 23, "1": 0}}')
    foreign = {p for p in by_partition if wanted.topics and p.topic not in wanted.topics}
    foreign |= {p for p in by_partition if wanted.partitions and p not in wanted.partitions}
    if foreign:
        raise config_error(
            f"{name} names {min(foreign)}, which is not read", hint="name partitions that are subscribed"
        )
    return by_partition


def _limits(options: Given) -> Limits:
    if options.has("maxTriggerDelay") and not options.has("minOffsetsPerTrigger"):
        raise config_error("maxTriggerDelay without minOffsetsPerTrigger delays nothing", hint="give both, or neither")
    most, least = options.number("maxOffsetsPerTrigger"), options.number("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise config_error(
            f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}", hint="give a smaller one"
        )
    max_bytes = (
        size_bytes(options.text("maxBytesPerTrigger", ""), "maxBytesPerTrigger")
        if options.has("maxBytesPerTrigger")
        else None
    )
    return Limits(most, max_bytes, least, options.delay("maxTriggerDelay", "15m"))
