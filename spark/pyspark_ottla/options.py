"""The options of a read or a write: those of Spark's own Kafka source and sink, with their names and defaults.

Spark hands them over with their names in lower case. One table for each direction has all of them. A name that is in no
table is rejected with the nearest one, and so are options that can't be combined. Nothing is ignored silently.
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
from pyspark_ottla.access import Access
from pyspark_ottla.machines.admission import AdmissionLimits
from pyspark_ottla.machines.decisions import query_of
from pyspark_ottla.machines.offsets import EARLIEST, LATEST, NOT_PARTITIONS, Bound
from pyspark_ottla.spark_options import SparkOptions

READ_OPTIONS: Final = (
    "kafka.bootstrap.servers",
    "profile",
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
"""All options of a source except for `kafka.*`. `profile`, `maxBytesPerTrigger` and `commitOffsets` are ottla's own."""

WRITE_OPTIONS: Final = (
    "kafka.bootstrap.servers",
    "profile",
    "topic",
    "includeHeaders",
    "delivery",
    "compareRepeats",
    "txnAppId",
    "txnVersion",
)
"""All options of a sink except for `kafka.*`. `profile`, `delivery` and `compareRepeats` are ottla's own, and the last
two have their names in Delta Lake.

`includeHeaders` is accepted and changes nothing, as in Spark's own sink: a column of headers is written.
"""

_DELIVERY_TIMEOUT_MS: Final = "120000"
_TRANSACTION_TIMEOUT_MS: Final = "900000"
"""A cluster's `transaction.max.timeout.ms`, unless it was set."""

_STREAMING_ONLY: Final = frozenset(
    ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "commitOffsets"]
)
_TRANSACTION_OF_BATCH: Final = frozenset(["txnAppId", "txnVersion"])
_BATCH_ONLY: Final = frozenset(["endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"])


@dataclass(frozen=True, slots=True)
class ConsumerStrategy:
    """What to read: exactly one of names, a pattern to be found in names, and single partitions."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        return (
            f"topics matching {self.pattern}" if self.pattern else ", ".join(self.topics or map(str, self.partitions))
        )

    def covers(self, partition: TopicPartition) -> bool:
        """Return whether that partition would be read if it existed."""
        if self.pattern:
            return re.search(self.pattern, partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A source's options, checked. Times are in seconds, and `client` is under Kafka's names."""

    access: Access
    strategy: ConsumerStrategy
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    limits: AdmissionLimits
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
    """A sink's options, checked. `topic` is "" if the rows have it. `client` is under Kafka's names.

    `compare_repeats` says whether a batch that was written already has to have the same rows. `app_id` is "" if a batch
    write has none.
    """

    access: Access
    topic: str
    client: Mapping[str, str]
    exactly_once: bool = False
    compare_repeats: bool = True
    app_id: str = ""
    app_version: int = 0


def read_options(spark_options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Return the options of a source. Raises ConfigError for invalid ones, with the remedy."""
    options = SparkOptions(spark_options, READ_OPTIONS, CONSUMER_NAMES)
    options.reject(_BATCH_ONLY if streaming else _STREAMING_ONLY, "batch" if streaming else "streaming")
    strategy = _strategy(options)
    group = options.text("kafka.group.id", "")
    client_id = options.client.pop("client.id", "")
    return ReadOptions(
        access=options.access(),
        strategy=strategy,
        starting=_starting(options, strategy, streaming=streaming),
        ending=_ending(options, strategy),
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


def write_options(spark_options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """Return the options of a sink. Raises ConfigError for invalid ones, with the remedy."""
    options = SparkOptions(spark_options, WRITE_OPTIONS, PRODUCER_NAMES)
    if streaming:  # the checkpoint has both
        options.reject(_TRANSACTION_OF_BATCH, "batch")
    exactly_once = options.choice("delivery", ("at_least_once", "exactly_once"), "at_least_once") == "exactly_once"
    _check_timeout(options.client, exactly_once=exactly_once)
    topic = options.text("topic", "")
    if topic:
        check_topic(topic)
    if (acks := options.client.get("acks", "all")) not in ("all", "-1"):
        raise config_error(
            f"kafka.acks={acks} is not supported: the sink's producers are always idempotent, "
            "and idempotence needs acks=all",
            hint="remove kafka.acks: the sink counts a row as written once every in-sync replica has it",
        )
    options.flag("includeHeaders", False)
    compare_repeats = options.flag("compareRepeats", True)
    if not (compare_repeats or exactly_once):
        raise config_error(
            "compareRepeats=false works only with delivery=exactly_once",
            hint="set delivery to exactly_once, or remove compareRepeats",
        )
    app_id, version = _app(options, exactly_once=exactly_once)
    return WriteOptions(options.access(), topic, options.client, exactly_once, compare_repeats, app_id, version)


def _app(options: SparkOptions, *, exactly_once: bool) -> tuple[str, int]:
    """Return txnAppId and txnVersion. They name what is written once, however often it is run."""
    app_id, version = options.text("txnAppId", ""), options.number("txnVersion", least=0)
    if not app_id and version is None:
        return "", 0
    if not app_id or version is None or not exactly_once:
        raise config_error(
            "txnAppId and txnVersion work only together, and only with delivery=exactly_once",
            hint="set all three options, or remove txnAppId and txnVersion",
        )
    if not re.fullmatch(r"[\w.-]{1,200}", app_id, re.ASCII) or query_of(f"spark-{app_id}") != f"spark-{app_id}":
        raise config_error(
            f"txnAppId={app_id} is not valid: the value becomes part of transactional ids",
            hint="use at most 200 letters, digits, dots, dashes and underscores, such as nightly-orders",
        )
    return app_id, version


def _check_timeout(client: dict[str, str], *, exactly_once: bool) -> None:
    """Check and set the transaction timeout. A task may take as long as its transaction, which begins with its first
    row, so the default is the longest."""
    name = "transaction.timeout.ms"
    if not exactly_once:
        if name in client:
            raise config_error(
                f"kafka.{name} works only with delivery=exactly_once", hint="set both options, or neither"
            )
        return
    delivery_ms = float(client.get("delivery.timeout.ms", _DELIVERY_TIMEOUT_MS))
    if float(client.setdefault(name, _TRANSACTION_TIMEOUT_MS)) < delivery_ms:
        raise config_error(
            f"kafka.{name}={client[name]} is less than kafka.delivery.timeout.ms={delivery_ms:g}: the "
            "transaction of a task that waits for brokers would time out",
            hint="set a timeout longer than a micro-batch takes; the default is 15 minutes",
        )


def wants_headers(spark_options: Mapping[str, str]) -> bool:
    """Return whether a source's columns include the headers. Raises ConfigError."""
    return SparkOptions(spark_options, (*READ_OPTIONS, *WRITE_OPTIONS), CONSUMER_NAMES | PRODUCER_NAMES).flag(
        "includeHeaders", False
    )


def _strategy(options: SparkOptions) -> ConsumerStrategy:
    strategies = [name for name in _STRATEGIES if options.has(name)]
    if len(strategies) != 1:
        raise config_error(
            f"{' and '.join(strategies)} are set together" if strategies else "no option says what to read",
            hint="set exactly one of subscribe, subscribePattern and assign",
        )
    return _STRATEGIES[strategies[0]](options)


def _subscribed(options: SparkOptions) -> ConsumerStrategy:
    topics = tuple(dict.fromkeys(name.strip() for name in options.text("subscribe", "").split(",") if name.strip()))
    if not topics:
        raise config_error("subscribe names no topics", hint="give topic names, separated by commas")
    for topic in topics:
        check_topic(topic)
    return ConsumerStrategy(topics=topics)


def _matching(options: SparkOptions) -> ConsumerStrategy:
    pattern = options.text("subscribePattern", "")
    try:
        re.compile(pattern)
    except re.error as error:
        raise config_error(
            f"subscribePattern={pattern} is not a regular expression: {error}",
            hint="use the syntax of Python's re module",
        ) from None
    return ConsumerStrategy(pattern=pattern)


def _assigned(options: SparkOptions) -> ConsumerStrategy:
    assign = options.json("assign")
    if not (isinstance(assign, dict) and assign and all(isinstance(numbers, list) for numbers in assign.values())):
        raise config_error("assign is not valid", hint='give JSON, such as {"orders": [0, 1]}')
    pairs = [(topic, number) for topic, numbers in assign.items() for number in numbers]
    if not pairs or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for _, n in pairs):
        raise config_error("assign names no partitions", hint='give JSON, such as {"orders": [0, 1]}')
    return ConsumerStrategy(partitions=tuple(sorted({TopicPartition(*pair) for pair in pairs})))


_STRATEGIES: Final = {"assign": _assigned, "subscribe": _subscribed, "subscribePattern": _matching}


def _starting(options: SparkOptions, strategy: ConsumerStrategy, *, streaming: bool) -> Bound:
    too_late = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    bound = _bound(options, "starting", strategy, or_latest=too_late == "latest")
    if bound is not None:
        if not streaming and (bound.otherwise == LATEST or LATEST in bound.offsets.values()):
            raise config_error(
                "a batch query that starts at latest reads nothing", hint="use earliest, offsets or a timestamp"
            )
        return bound
    return Bound(otherwise=LATEST if streaming else EARLIEST)


def _ending(options: SparkOptions, strategy: ConsumerStrategy) -> Bound:
    bound = _bound(options, "ending", strategy, or_latest=True)
    if bound is None:
        return Bound(otherwise=LATEST)
    if bound.otherwise == EARLIEST or EARLIEST in bound.offsets.values():
        raise config_error("a query can't end at earliest", hint="use latest, offsets or a timestamp")
    return bound


def _bound(options: SparkOptions, which: str, strategy: ConsumerStrategy, *, or_latest: bool) -> Bound | None:
    """Return the bound that the options set. `startingTimestamp` beats `startingOffsetsByTimestamp`, and that beats
    `startingOffsets`."""
    if options.has(f"{which}Timestamp"):
        at_ms = options.number(f"{which}Timestamp", least=0)
        return Bound(timestamp_ms=at_ms, or_latest=or_latest)
    if options.has(f"{which}OffsetsByTimestamp"):
        times_ms = _by_partition(options, f"{which}OffsetsByTimestamp", strategy, least=0)
        return Bound(timestamps_ms=times_ms, or_latest=or_latest)
    name = f"{which}Offsets"
    if not options.has(name):
        return None
    word = options.text(name, "").lower()
    if word in ("earliest", "latest"):
        return Bound(otherwise=EARLIEST if word == "earliest" else LATEST)
    return Bound(offsets=_by_partition(options, name, strategy, least=EARLIEST))


def _by_partition(
    options: SparkOptions, name: str, strategy: ConsumerStrategy, *, least: int
) -> dict[TopicPartition, int]:
    value = options.json(name)
    by_partition: dict[TopicPartition, int] = {}
    for topic, numbers in value.items() if isinstance(value, dict) else [("", None)]:
        for number, at in numbers.items() if isinstance(numbers, dict) else [("", None)]:
            if number in NOT_PARTITIONS:
                continue  # the offsets are those of a query's progress
            if not str(number).isdigit() or not isinstance(at, int) or isinstance(at, bool) or at < least:
                raise config_error(
                    f"{name} is not valid: {json.dumps(value)}",
                    hint='give JSON, such as {"orders": {"0": 23, "1": 0}}',
                )
            by_partition[TopicPartition(topic, int(number))] = at
    if not by_partition:
        raise config_error(f"{name} names no partitions", hint='give JSON, such as {"orders": {"0": 23, "1": 0}}')
    _check_selected(name, by_partition, strategy)
    return by_partition


def _check_selected(name: str, by_partition: Mapping[TopicPartition, int], strategy: ConsumerStrategy) -> None:
    foreign = {p for p in by_partition if strategy.topics and p.topic not in strategy.topics}
    foreign |= {p for p in by_partition if strategy.partitions and p not in strategy.partitions}
    if foreign:
        raise config_error(
            f"{name} names {min(foreign)}, which the query does not read",
            hint="name only partitions that the query reads",
        )


def _limits(options: SparkOptions) -> AdmissionLimits:
    if options.has("maxTriggerDelay") and not options.has("minOffsetsPerTrigger"):
        raise config_error(
            "maxTriggerDelay has no effect without minOffsetsPerTrigger", hint="set both options, or neither"
        )
    most, least = options.number("maxOffsetsPerTrigger"), options.number("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise config_error(
            f"minOffsetsPerTrigger={least} is greater than maxOffsetsPerTrigger={most}",
            hint="set a smaller minOffsetsPerTrigger",
        )
    max_bytes = (
        size_bytes(options.text("maxBytesPerTrigger", ""), "maxBytesPerTrigger")
        if options.has("maxBytesPerTrigger")
        else None
    )
    return AdmissionLimits(most, max_bytes, least, options.delay("maxTriggerDelay", "15m"))
