"""Every config under Kafka's name, in one table.

The names, types, defaults and ranges are Kafka 4's, with four differences. `max.message.bytes` has the size of the
largest batch that can be sent as its upper bound. `compaction.drop.keyless` is ottla's own. `segment.bytes` keeps the
small lower bound of Kafka 3 (Kafka 4 has a hidden twin of it for tests). Every config that the cluster as a whole
decides is dynamic here, because a broker has no file of its own that the others could not see. Kafka's configs without
a counterpart, or with none yet, are in kafka_configs: thread pools, listeners, security, quotas.

Most topic configs have broker configs of the same meaning, their synonyms, which stand in if the topic sets nothing.
The one that counts first comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla_core.configs.config_key import ConfigKey, ConfigType, Scope
from ottla_core.configs.connection_limits import limits_by_address
from ottla_core.model import MAX_BATCH_BYTES

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST, _SHORT = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST, ConfigType.SHORT

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000
_MIB: Final = 1 << 20
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_THROTTLED: Final = r"\*|[0-9]+:[0-9]+"
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_GZIP_LEVELS: Final = ("-1", "1", "2", "3", "4", "5", "6", "7", "8", "9")
_STAMPS: Final = ("CreateTime", "LogAppendTime")
_ASSIGNORS: Final = ("uniform", "range")
_MIGRATIONS: Final = ("disabled", "downgrade", "upgrade", "bidirectional")

ENFORCED: Final = frozenset(
    {
        "advertised.listeners",
        "auto.create.topics.enable",
        "auto.leader.rebalance.enable",
        "broker.id",
        "broker.rack",
        "cleanup.policy",
        "compaction.drop.keyless",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "consumer.assignment.interval.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "default.replication.factor",
        "delete.retention.ms",
        "delete.topic.enable",
        "flush.messages",
        "flush.ms",
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "index.interval.bytes",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.enable",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "max.compaction.lag.ms",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "num.partitions",
        "num.recovery.threads.per.data.dir",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "producer.id.expiration.ms",
        "remote.storage.enable",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "socket.request.max.bytes",
        "transaction.max.timeout.ms",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transactional.id.expiration.ms",
        "unclean.leader.election.enable",
        "unclean.recovery.strategy",
    }
)
"""The configs that some service acts on already (a topic config includes its synonyms). The others are stored and
described. A test compares them with the names in the services' sources."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that stands in for a topic config. One unit of it is `factor` units of the topic's."""

    name: str
    factor: int = 1


SYNONYMS: Final[dict[str, tuple[Synonym, ...]]] = {}
"""The synonyms of each topic config, in order of precedence."""


def _minutes(name: str) -> Synonym:
    return Synonym(name, _MINUTE_MS)


def _hours(name: str) -> Synonym:
    return Synonym(name, _HOUR_MS)


def _topic(
    name: str,
    type_: ConfigType,
    default: object,
    *synonyms: str | Synonym,
    doc: str,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    pattern: str = "",
) -> ConfigKey:
    SYNONYMS[name] = tuple(s if isinstance(s, Synonym) else Synonym(s) for s in synonyms)
    return ConfigKey(name, type_, str(default), doc, Scope.TOPIC, least, most, choices, pattern)


def _cluster(
    name: str,
    type_: ConfigType,
    default: object,
    *,
    doc: str,
    least: float | None = None,
    choices: tuple[str, ...] = (),
    check: Callable[[str], object] | None = None,
) -> ConfigKey:
    text = None if default is None else str(default)
    return ConfigKey(name, type_, text, doc, Scope.CLUSTER, least, choices=choices, check=check)


def _group(name: str, default: int, *, doc: str, least: int) -> ConfigKey:
    return ConfigKey(name, _INT, str(default), doc, Scope.GROUP, least)


def _identity(name: str, type_: ConfigType, *, doc: str) -> ConfigKey:
    return ConfigKey(name, type_, None, doc, Scope.BROKER, dynamic=False)


def _not_empty(canonical: str) -> None:
    if not canonical:
        raise ValueError("give at least one")


# fmt: off
_GROUP_ROWS: Final = (
    _group("consumer.assignment.interval.ms", 1_000, least=0,
           doc="Shortest time between two target assignments of the group."),
    _group("consumer.heartbeat.interval.ms", 5_000, least=1, doc="Time between two heartbeats of a member."),
    _group("consumer.session.timeout.ms", 45_000, least=1,
           doc="Time without a heartbeat after which a member leaves the group."),
)
_TOPIC_ROWS: Final = (
    _topic("cleanup.policy", _LIST, "delete", "log.cleanup.policy", choices=("delete", "compact"),
           doc="How old records are removed: delete removes them by age and size, and compact keeps only the newest "
               "record of each key. Both may be combined."),
    _topic("compaction.drop.keyless", _BOOLEAN, "true", "log.cleaner.drop.keyless",
           doc="Whether compaction drops records without a key, as Kafka does. Such records can only have been written "
               "before cleanup.policy=compact was set. If false, the broker reports a log with such a record and does "
               "not compact it."),
    _topic("compression.gzip.level", _INT, -1, "compression.gzip.level", choices=_GZIP_LEVELS,
           doc="Compression level if the broker compresses with gzip."),
    _topic("compression.lz4.level", _INT, 9, "compression.lz4.level", least=1, most=17,
           doc="Compression level if the broker compresses with lz4."),
    _topic("compression.type", _STRING, "producer", "compression.type", choices=_CODECS,
           doc="Codec in which the leader stores produced batches. producer keeps each batch as it was sent."),
    _topic("compression.zstd.level", _INT, 3, "compression.zstd.level", least=-131_072, most=22,
           doc="Compression level if the broker compresses with zstd."),
    _topic("delete.retention.ms", _LONG, _DAY_MS, "log.cleaner.delete.retention.ms", least=0,
           doc="How long a tombstone remains readable after the first compaction that includes it."),
    _topic("errors.deadletterqueue.group.enable", _BOOLEAN, "false",
           doc="Whether share groups may write undeliverable records to the topic."),
    _topic("file.delete.delay.ms", _LONG, _MINUTE_MS, "log.segment.delete.delay.ms", least=0,
           doc="How long a deleted file is kept before it leaves the disk."),
    _topic("flush.messages", _LONG, _LONG_MAX, "log.flush.interval.messages", least=1,
           doc="Number of records after which the log is flushed to disk."),
    _topic("flush.ms", _LONG, _LONG_MAX, "log.flush.interval.ms", "log.flush.scheduler.interval.ms", least=0,
           doc="Longest time until an appended record is flushed to disk."),
    _topic("follower.replication.throttled.replicas", _LIST, "", pattern=_THROTTLED,
           doc="Followers whose replication is throttled: partition:broker pairs, or *."),
    _topic("index.interval.bytes", _INT, 4096, "log.index.interval.bytes", least=0,
           doc="Approximate number of bytes of log between two index entries."),
    _topic("leader.replication.throttled.replicas", _LIST, "", pattern=_THROTTLED,
           doc="Leaders whose replication is throttled: partition:broker pairs, or *."),
    _topic("local.retention.bytes", _LONG, -2, "log.local.retention.bytes", least=-2,
           doc="Bytes of a tiered log that are kept locally; -2 follows retention.bytes."),
    _topic("local.retention.ms", _LONG, -2, "log.local.retention.ms", least=-2,
           doc="How long records of a tiered log are kept locally; -2 follows retention.ms."),
    _topic("max.compaction.lag.ms", _LONG, _LONG_MAX, "log.cleaner.max.compaction.lag.ms", least=1,
           doc="Longest time that a record may remain uncompacted."),
    _topic("max.decompressed.message.bytes", _INT, 2**31 - 9, "max.decompressed.message.bytes", least=1, most=2**31 - 9,
           doc="Largest size of a record after decompression."),
    _topic("max.message.bytes", _INT, _MIB + 12, "message.max.bytes", least=0, most=MAX_BATCH_BYTES,
           doc="Largest record batch, after compression, that a broker accepts. The highest valid value is 100 MiB, "
               "the size of the largest request that a Kafka client may send (socket.request.max.bytes)."),
    _topic("message.timestamp.after.max.ms", _LONG, _HOUR_MS, "log.message.timestamp.after.max.ms", least=0,
           doc="How far a record's timestamp may be ahead of the broker's clock."),
    _topic("message.timestamp.before.max.ms", _LONG, _LONG_MAX, "log.message.timestamp.before.max.ms", least=0,
           doc="How far a record's timestamp may be behind the broker's clock."),
    _topic("message.timestamp.type", _STRING, "CreateTime", "log.message.timestamp.type", choices=_STAMPS,
           doc="Timestamp of a record: the producer's (CreateTime), or the broker's at the time of the append "
               "(LogAppendTime)."),
    _topic("min.cleanable.dirty.ratio", _DOUBLE, 0.5, "log.cleaner.min.cleanable.ratio", least=0, most=1,
           doc="Share of a log that must be uncompacted before the broker compacts the log."),
    _topic("min.compaction.lag.ms", _LONG, 0, "log.cleaner.min.compaction.lag.ms", least=0,
           doc="Shortest time that a record remains uncompacted."),
    _topic("min.insync.replicas", _INT, 1, "min.insync.replicas", least=1,
           doc="Smallest number of in-sync replicas with which a partition accepts writes with acks=all."),
    _topic("preallocate", _BOOLEAN, "false", "log.preallocate",
           doc="Whether a new segment's file gets its full size at once."),
    _topic("remote.copy.lag.bytes", _LONG, -1, "log.remote.copy.lag.bytes", least=-1,
           doc="Bytes of closed segments that may wait before they are copied to a tier."),
    _topic("remote.copy.lag.ms", _LONG, 0, "log.remote.copy.lag.ms", least=-1,
           doc="How long a closed segment waits before it is copied to a tier."),
    _topic("remote.log.copy.disable", _BOOLEAN, "false",
           doc="Whether a tiered topic stops copying segments."),
    _topic("remote.log.delete.on.disable", _BOOLEAN, "false",
           doc="Whether switching tiering off deletes the copied segments."),
    _topic("remote.storage.enable", _BOOLEAN, "false", choices=("false",),
           doc="Tiered storage, which ottla does not support."),
    _topic("retention.bytes", _LONG, -1, "log.retention.bytes",
           doc="Size to which a partition's log is trimmed; -1 means no limit."),
    _topic("retention.ms", _LONG, 7 * _DAY_MS, "log.retention.ms", _minutes("log.retention.minutes"),
           _hours("log.retention.hours"), least=-1,
           doc="How long records are kept; -1 means for ever."),
    _topic("segment.bytes", _INT, 1024 * _MIB, "log.segment.bytes", least=14,
           doc="Size at which a segment is closed and a new one begins."),
    _topic("segment.index.bytes", _INT, 10 * _MIB, "log.index.size.max.bytes", least=4,
           doc="Largest size of an index. When an index is full, the broker closes its segment."),
    _topic("segment.jitter.ms", _LONG, 0, "log.roll.jitter.ms", _hours("log.roll.jitter.hours"), least=0,
           doc="Largest random time by which segment.ms is shortened, so that segments do not all close at the same "
               "time."),
    _topic("segment.ms", _LONG, 7 * _DAY_MS, "log.roll.ms", _hours("log.roll.hours"), least=1,
           doc="Age at which a segment is closed even if it is not full."),
    _topic("unclean.leader.election.enable", _BOOLEAN, "false", "unclean.leader.election.enable",
           doc="Whether an out-of-sync replica may become leader if no in-sync replica is left, at the risk of "
               "losing records."),
    _topic("unclean.recovery.strategy", _STRING, "balanced", "unclean.recovery.strategy",
           choices=("balanced", "aggressive", "none"),
           doc="How a leader is elected if no replica is known to have every record. With balanced, the election waits "
               "for all replicas that were last in sync; with aggressive, it considers only running replicas. In both "
               "cases, the replica with the longest log becomes leader. With none, an operator decides (KIP-966)."),
)

_BROKER_ROWS: Final = (
    _identity("advertised.listeners", _LIST, doc="Where Kafka clients reach the broker; a setting of its process."),
    _identity("broker.id", _INT, doc="The broker's node id: a setting of its process, or assigned by the controller."),
    _identity("broker.rack", _STRING, doc="The broker's rack; a setting of its process."),
    _cluster("auto.create.topics.enable", _BOOLEAN, "true",
             doc="Whether a topic is created when a client requests one that does not exist."),
    _cluster("auto.leader.rebalance.enable", _BOOLEAN, "true",
             doc="Whether leadership returns to the preferred leaders automatically."),
    _cluster("connections.max.idle.ms", _LONG, 10 * _MINUTE_MS,
             doc="Time without a request after which a Kafka connection is closed. A negative value means never."),
    _cluster("controlled.shutdown.enable", _BOOLEAN, "true",
             doc="Whether a broker that shuts down first moves its leaderships to other brokers."),
    _cluster("default.replication.factor", _INT, 1, least=1,
             doc="Default replication factor of a new topic."),
    _cluster("delete.topic.enable", _BOOLEAN, "true", doc="Whether topics may be deleted."),
    _cluster("fetch.max.bytes", _INT, 55 * _MIB, least=1024,
             doc="Maximum number of bytes in the response to one fetch."),
    _cluster("follower.replication.throttled.rate", _LONG, _LONG_MAX, least=0,
             doc="Bytes per second for throttled followers."),
    _cluster("group.consumer.assignment.interval.ms", _INT, 1_000, least=0,
             doc="Shortest time between two target assignments of a consumer group that sets none itself."),
    _cluster("group.consumer.assignors", _LIST, "uniform,range", choices=_ASSIGNORS, check=_not_empty,
             doc="Assignors that members of consumer groups may choose. The first is the default."),
    _cluster("group.consumer.heartbeat.interval.ms", _INT, 5_000, least=1,
             doc="Time between two heartbeats of a member, in consumer groups that set none themselves."),
    _cluster("group.consumer.max.assignment.interval.ms", _INT, 15_000, least=0,
             doc="Largest consumer.assignment.interval.ms of a group."),
    _cluster("group.consumer.max.heartbeat.interval.ms", _INT, 15_000, least=1,
             doc="Largest consumer.heartbeat.interval.ms of a group."),
    _cluster("group.consumer.max.session.timeout.ms", _INT, _MINUTE_MS, least=1,
             doc="Largest consumer.session.timeout.ms of a group."),
    _cluster("group.consumer.max.size", _INT, _INT_MAX, least=1,
             doc="Largest number of members in a consumer group."),
    _cluster("group.consumer.migration.policy", _STRING, "bidirectional", choices=_MIGRATIONS,
             doc="Whether a group that has members may change its protocol: upgrade from the classic one to the "
                 "consumer protocol, downgrade back, bidirectional both, disabled neither. A group without members "
                 "always may."),
    _cluster("group.consumer.min.assignment.interval.ms", _INT, 0, least=0,
             doc="Smallest consumer.assignment.interval.ms of a group."),
    _cluster("group.consumer.min.heartbeat.interval.ms", _INT, 5_000, least=1,
             doc="Smallest consumer.heartbeat.interval.ms of a group."),
    _cluster("group.consumer.min.session.timeout.ms", _INT, 45_000, least=1,
             doc="Smallest consumer.session.timeout.ms of a group."),
    _cluster("group.consumer.regex.refresh.interval.ms", _INT, 10 * _MINUTE_MS, least=10_000,
             doc="Time after which the regular expressions of a consumer group are matched with the topics again, even "
                 "if no topic and no ACL has changed."),
    _cluster("group.consumer.session.timeout.ms", _INT, 45_000, least=1,
             doc="Time without a heartbeat after which a member leaves a consumer group that sets none itself."),
    _cluster("group.initial.rebalance.delay.ms", _INT, 3_000,
             doc="How long a new group waits for more members before its first rebalance."),
    _cluster("group.max.session.timeout.ms", _INT, 30 * _MINUTE_MS,
             doc="Longest session timeout that a member may request."),
    _cluster("group.max.size", _INT, _INT_MAX, least=1, doc="Largest number of members in a group."),
    _cluster("group.min.session.timeout.ms", _INT, 6_000, doc="Shortest session timeout that a member may request."),
    _cluster("leader.imbalance.check.interval.seconds", _LONG, 300, least=1,
             doc="How often the controller checks whether leadership is balanced."),
    _cluster("leader.imbalance.per.broker.percentage", _INT, 10,
             doc="Percentage of a broker's preferred partitions that other brokers may lead before leadership returns "
                 "to it."),
    _cluster("leader.replication.throttled.rate", _LONG, _LONG_MAX, least=0,
             doc="Bytes per second for throttled leaders."),
    _cluster("log.cleaner.backoff.ms", _LONG, 15_000, least=0,
             doc="How long the cleaner waits if no log needs compaction."),
    _cluster("log.cleaner.dedupe.buffer.size", _LONG, 128 * _MIB, least=_MIB,
             doc="Memory for keys, shared by all concurrent compactions."),
    _cluster("log.cleaner.enable", _BOOLEAN, "true", doc="Whether brokers compact topics with cleanup.policy=compact."),
    _cluster("log.cleaner.io.max.bytes.per.second", _DOUBLE, "1.7976931348623157e+308",
             doc="Maximum number of bytes per second that compaction may read and write in total."),
    _cluster("log.cleaner.threads", _INT, 1, least=1, doc="Number of concurrent compactions."),
    _cluster("log.flush.offset.checkpoint.interval.ms", _INT, _MINUTE_MS, least=0,
             doc="How often recovery points are written."),
    _cluster("log.flush.start.offset.checkpoint.interval.ms", _INT, _MINUTE_MS, least=0,
             doc="How often log start offsets are written."),
    _cluster("log.retention.check.interval.ms", _LONG, 5 * _MINUTE_MS, least=1,
             doc="How often the broker checks for old segments."),
    _cluster("log.retention.hours", _INT, 168,
             doc="retention.ms in hours, if neither milliseconds nor minutes are set."),
    _cluster("log.retention.minutes", _INT, None, doc="retention.ms in minutes, if log.retention.ms is not set."),
    _cluster("log.roll.hours", _INT, 168, least=1, doc="segment.ms in hours, if log.roll.ms is not set."),
    _cluster("log.roll.jitter.hours", _INT, 0, least=0,
             doc="segment.jitter.ms in hours, if log.roll.jitter.ms is not set."),
    _cluster("max.connections", _INT, _INT_MAX, least=1,
             doc="Maximum number of Kafka connections to a broker. No value allows more than 10,000."),
    _cluster("max.connections.per.ip", _INT, _INT_MAX, least=0,
             doc="Maximum number of Kafka connections from one client address."),
    _cluster("max.connections.per.ip.overrides", _STRING, "", check=limits_by_address,
             doc="Other limits for some addresses, as in 10.0.0.1:200,[::1]:50. Host names are not allowed."),
    _cluster("num.partitions", _INT, 1, least=1,
             doc="Default number of partitions of a new topic."),
    _cluster("num.recovery.threads.per.data.dir", _INT, 2, least=1,
             doc="Number of logs that a starting broker opens and recovers concurrently."),
    _cluster("offset.metadata.max.bytes", _INT, 4096,
             doc="Maximum number of bytes of metadata that a client may store with a committed offset."),
    _cluster("offsets.commit.timeout.ms", _INT, 5_000, least=1,
             doc="How long an offset commit may wait for its replicas."),
    _cluster("offsets.retention.check.interval.ms", _LONG, 10 * _MINUTE_MS, least=1,
             doc="How often the coordinator checks for expired offsets."),
    _cluster("offsets.retention.minutes", _INT, 7 * 24 * 60, least=1,
             doc="How long an empty group's offsets are kept."),
    _cluster("offsets.topic.num.partitions", _INT, 50, least=1,
             doc="Number of partitions with which __consumer_offsets is created."),
    _cluster("offsets.topic.replication.factor", _SHORT, 3, least=1,
             doc="Replication factor with which __consumer_offsets is created."),
    _cluster("offsets.topic.segment.bytes", _INT, 100 * _MIB, least=1,
             doc="Segment size with which __consumer_offsets is created."),
    _cluster("producer.id.expiration.ms", _INT, _DAY_MS, least=1,
             doc="How long an idle producer's sequence numbers are kept."),
    _cluster("queued.max.requests", _INT, 500, least=1,
             doc="Number of requests in progress at which a broker stops reading more."),
    _cluster("replica.fetch.backoff.ms", _INT, 1_000, least=0,
             doc="How long a follower waits after an error before it fetches again."),
    _cluster("replica.fetch.max.bytes", _INT, _MIB, least=0,
             doc="Number of bytes that a follower requests for each partition in one fetch."),
    _cluster("replica.fetch.min.bytes", _INT, 1, doc="Number of bytes that a follower's fetch waits for."),
    _cluster("replica.fetch.response.max.bytes", _INT, 10 * _MIB, least=0,
             doc="Number of bytes that a follower requests for all partitions in one fetch."),
    _cluster("replica.fetch.wait.max.ms", _INT, 500,
             doc="Longest time that a follower's fetch waits for replica.fetch.min.bytes."),
    _cluster("replica.high.watermark.checkpoint.interval.ms", _LONG, 5_000,
             doc="How often high watermarks are written."),
    _cluster("replica.lag.time.max.ms", _LONG, 30_000,
             doc="Time after which a follower that has not caught up is removed from the ISR."),
    _cluster("socket.request.max.bytes", _INT, 100 * _MIB, least=1,
             doc="Largest Kafka request: at most 100 MiB, and at most 16 MiB if it is not a produce. A broker accepts "
                 "requests of up to 64 KiB in any case."),
    _cluster("transaction.max.timeout.ms", _INT, 15 * _MINUTE_MS, least=1,
             doc="Longest transaction timeout that a producer may request."),
    _cluster("transaction.partition.verification.enable", _BOOLEAN, "true",
             doc="Whether the first append of a transaction to a partition is verified."),
    _cluster("transaction.state.log.min.isr", _INT, 2, least=1, doc="min.insync.replicas of __transaction_state."),
    _cluster("transaction.state.log.num.partitions", _INT, 50, least=1,
             doc="Number of partitions with which __transaction_state is created."),
    _cluster("transaction.state.log.replication.factor", _SHORT, 3, least=1,
             doc="Replication factor with which __transaction_state is created."),
    _cluster("transaction.state.log.segment.bytes", _INT, 100 * _MIB, least=1,
             doc="Segment size with which __transaction_state is created."),
    _cluster("transactional.id.expiration.ms", _INT, 7 * _DAY_MS, least=1,
             doc="How long an idle transactional id is kept."),
)
# fmt: on


def _synonym_rows() -> list[ConfigKey]:
    """Return the broker configs that share a topic config's unit: same type, range and meaning.

    The last of the synonyms has the default. Those before it are unset, or they would always decide.
    """
    rows = []
    for key in _TOPIC_ROWS:
        synonyms = SYNONYMS[key.name]
        for synonym in synonyms:
            if synonym.factor == 1:
                default = key.default if synonym is synonyms[-1] else None
                doc = f"For topics that do not set {key.name}: {key.doc}"
                rows.append(replace(key, name=synonym.name, scope=Scope.CLUSTER, default=default, doc=doc))
    return rows


def _table(*rows: ConfigKey) -> Mapping[str, ConfigKey]:
    enforced = ENFORCED | {synonym.name for name in ENFORCED for synonym in SYNONYMS.get(name, ())}
    return {key.name: replace(key, enforced=key.name in enforced) for key in sorted(rows, key=lambda key: key.name)}


TOPIC_CONFIGS: Final = _table(*_TOPIC_ROWS)
GROUP_CONFIGS: Final = _table(*_GROUP_ROWS)
"""The configs of one group. If it sets none, the broker config `group.` + name applies."""
BROKER_CONFIGS: Final = _table(*_BROKER_ROWS, *_synonym_rows())
"""The configs of a broker; except for those of Scope.BROKER, they also apply to the whole cluster."""
