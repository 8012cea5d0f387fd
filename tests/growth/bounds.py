"""What may grow for a while with what has ended, how far, and why. Nothing else may."""

from __future__ import annotations

from typing import Final

from tests.growth.cluster import BROKERS
from tests.growth.verdict import Bound

from ottla_broker.kafka.fetch_sessions import MAX_PARTITIONS, MAX_SESSIONS
from ottla_core.cluster.memory import HISTORY_REVISIONS

_SESSIONS: Final = "a client that is gone without a word leaves its fetch session, until others need the room (KIP-227)"

_HISTORY: Final = "the store in memory keeps as many revisions for watches as the embedded etcd does"

_EPOCHS: Final = (
    "a log keeps the start of each leader epoch since its own start, as in Kafka: followers truncate by them (KIP-101)"
)

_STUBS: Final = "a client keeps a stub for each method and each address of a broker or controller"

BOUNDS: Final = (
    Bound("client: Peer.*", 2000, _STUBS),
    Bound("*: LeaderEpochs.*", 2000, _EPOCHS),
    Bound("*: EpochsFile._written*", 2000, _EPOCHS),
    Bound("outside: ottla_broker.machines.epochs.EpochStart", 2000, _EPOCHS),
    Bound("outside: files leader-epoch-checkpoint", 20_000, _EPOCHS),
    Bound("outside: ottla_core.cluster.store.*", 2 * HISTORY_REVISIONS * 100, _HISTORY),
    Bound("module: cache of ottla_group_coordinator.machines.records._names", 1000, "a cache of that size"),
    Bound("outside: ottla_broker.kafka.fetch_*", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
    Bound("outside: ottla_broker.replication.fetch_purgatory.DelayedFetch", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
    Bound("broker, Kafka listener: FetchSessions._sessions*", BROKERS * MAX_SESSIONS, _SESSIONS),
    Bound("broker, Kafka listener: Session*", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
    Bound("broker, Kafka listener: DelayedFetch*", 2 * BROKERS * MAX_PARTITIONS, _SESSIONS),
)
