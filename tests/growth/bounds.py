"""What may grow for a while with what has ended, how far, and why. Nothing else may."""

from __future__ import annotations

from typing import Final

from tests.growth.cluster import BROKERS
from tests.growth.verdict import Bound

from ottla.machines.partitioner import CACHED_KEYS
from ottla_broker.kafka.fetch_sessions import MAX_PARTITIONS, MAX_SESSIONS
from ottla_core.cluster.history import MAX_TERMS
from ottla_core.cluster.memory import HISTORY_REVISIONS
from ottla_group_coordinator.machines.history import KEPT

_ENCODED: Final = "a broker keeps encoded topics until as many are deleted as there are others"

_SESSIONS: Final = "a client that is gone without a word leaves its fetch session, until others need the room (KIP-227)"

_HISTORY: Final = "the store in memory keeps as many revisions for watches as the embedded etcd does"

_EPOCHS: Final = (
    "a log keeps the start of each leader epoch since its own start, as in Kafka: followers truncate by them (KIP-101)"
)

_LEADERS: Final = "a client keeps the leaders of up to 10,000 partitions that it imports into"

_EVENTS: Final = (
    "a group keeps its last events for operators; the members of a flow's group come and go with each topic"
)

_GROUPS_OF_FLOWS: Final = 3

_KEYS: Final = "a producer keeps the partitions of the keys that it has seen last"

_CHECKPOINTS: Final = (
    "a group's checkpoint stays, as in MirrorMaker 2: a group that has expired is moved by it, and Kafka's "
    "MirrorClient can't read a tombstone"
)

_STRETCHES: Final = "of a compacted topic a mirror maps up to 65,536 stretches, and then thins them"

_TERMS: Final = "the cluster keeps its last controllers' terms: a service finds by them where a restored store parts"

_HEAP: Final = "what a timer that was moved leaves in the heap is taken out once it outgrows what is set"

BOUNDS: Final = (
    Bound("*: NamedCoordinators._known*", 1000 * 50, "a client remembers up to 1,000 coordinators"),
    # No call outlives its outcome: test_no_call_is_kept_after_its_outcome.
    Bound("outside: ottla.client.kafka.call.Call", 500, "each is a request without an outcome, as held fetches are"),
    Bound("*: TopicNames._*", 100_000 * 60, "a client remembers the names of up to 100,000 topics"),
    Bound("*broker, Kafka listener: EncodedTopics._kept*", 2_000_000, _ENCODED),
    Bound("outside: ottla_broker.kafka.wire.encoded_topics._Encoded", 20_000, _ENCODED),
    Bound("mirror, *: Partitions._leaders*", 10_000, _LEADERS),
    Bound("mirror, *: KeyedPartitioner._*", 2 * CACHED_KEYS * 50, _KEYS),
    Bound("*group-coordinator, shard: History._events*", 2 * _GROUPS_OF_FLOWS * KEPT, _EVENTS),
    Bound("*group-coordinator, shard: HistoryEvent", 2 * _GROUPS_OF_FLOWS * KEPT, _EVENTS),
    Bound("outside: ottla_group_coordinator.machines.history.HistoryEvent", 4 * _GROUPS_OF_FLOWS * KEPT, _EVENTS),
    Bound("*: Timers._heap*", 1000, _HEAP),
    Bound("mirror*: OffsetMap._*", 3 * 2_000_000, _STRETCHES),
    Bound("mirror*: GroupOffsets._checkpoints*", 20_000, _CHECKPOINTS),
    Bound("outside: ottla_mirror.machines.mirror_records.Checkpoint", 20_000, _CHECKPOINTS),
    # Whoever else holds partitions is counted by its own attributes.
    Bound("outside: ottla_core.model.TopicPartition", 20_000, _CHECKPOINTS),
    Bound("flow's own topics: *checkpoints*", 20_000, _CHECKPOINTS),
    Bound("outside: ottla_*_coordinator.machines.*Timer", 500, _HEAP),
    Bound("*: LeaderEpochs.*", 2000, _EPOCHS),
    Bound("*: EpochsFile._written*", 2000, _EPOCHS),
    Bound("outside: ottla_core.records.leader_epochs.EpochStart", 2000, _EPOCHS),
    Bound("outside: files leader-epoch-checkpoint", 20_000, _EPOCHS),
    Bound("outside: ottla_core.cluster.store.*", 2 * HISTORY_REVISIONS * 100, _HISTORY),
    Bound("outside: keys */terms", 64 * MAX_TERMS, _TERMS),
    # One line for each term, of a few bytes as they are counted, at each broker of both clusters.
    Bound("outside: files metadata-checkpoint", (BROKERS + 1) * 8 * MAX_TERMS, _TERMS),
    # Each service that reads the metadata has its own copy.
    Bound("outside: ottla_core.cluster.history.Term", 20 * MAX_TERMS, _TERMS),
    Bound("module: cache of ottla_group_coordinator.machines.records._names", 1000, "a cache of that size"),
    Bound("outside: ottla_broker.kafka.*fetch_*", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
    Bound("outside: ottla_broker.replication.fetch_purgatory.DelayedFetch", BROKERS * MAX_SESSIONS, _SESSIONS),
    Bound("*broker: FetchPurgatory._by_partition*", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
    Bound("*broker, Kafka listener: FetchSessions._sessions*", BROKERS * MAX_SESSIONS, _SESSIONS),
    Bound("*broker, Kafka listener: DelayedFetch*", BROKERS * MAX_SESSIONS, _SESSIONS),
    Bound("*broker, Kafka listener: Session*", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
)
