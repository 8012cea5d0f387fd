"""The cluster's state is one immutable value, and a change of one key makes the next one.

Every process decides by metadata that changes while it decides. If it read topics, partitions and brokers one by one,
it would combine states that never existed together. So each follower of metadata holds one `ClusterImage`, which is one
whole revision of the cluster (I9). A change never alters an image. It makes the next image, and the follower replaces
its variable. Code that took an image out of the variable sees one revision for as long as it keeps it.

A new image shares all mappings that did not change with the image before. So a change costs what it changes, not what
the cluster holds, and `new.configs is not old.configs` is a cheap and exact test for a change.

This module is pure: it has no clock and no IO. It assumes that changes arrive in revision order and without gaps.
`cluster.follower` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla_core.cluster.history import History, Term
from ottla_core.cluster.layered_mapping import copy_of
from ottla_core.model import NO_LEADER, NO_OWNER, SHARD_TOPICS, PartitionId, TopicId
from ottla_core.routing import shard_of
from ottla_core.security.acl import Acl
from ottla_core.security.scram import Mechanism, ScramCredential


@dataclass(frozen=True, slots=True)
class Broker:
    """A registration. `epoch` is the key's create_revision: a restarted process always has a larger one (KIP-631)."""

    id: int
    epoch: int
    directory_id: str
    address: str  # gRPC host:port
    kafka_address: str = ""  # that of the first of its Kafka listeners, host:port
    kafka_listeners: Mapping[str, str] = field(default_factory=dict)  # host:port by name; an older release has none
    rack: str = ""
    fenced: bool = True
    incarnation: str = ""
    unclean: bool = False  # it may have lost an acknowledged tail (rule 21)
    shutting_down: bool = False  # it gives its leaders away and takes none
    read_only: bool = False  # its disk takes no appends, so it leads only if no other can
    secret: bytes = field(default=b"", repr=False)  # of its process (module proof); never sent to clients
    ahead_of: int | None = None  # up to this revision the store was older than its data: it was restored
    lease: int = 0  # it is put again under this lease, or the registration would outlive its process
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class LastIncarnation:
    """The newest incarnation of a broker that ever registered.

    It outlives the registration, so a broker that starts on an old copy of its volume is recognized. It is written in
    the same transaction as the registration, whose `epoch` it has.

    `renewals` says how often the incarnation had renewed the vouch for its directory when it last reported that. A
    directory of this incarnation with fewer is an old copy.
    """

    incarnation: str
    directory_id: str
    epoch: int = 0
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class Restored:
    """How often the metadata was restored from a backup.

    What an older count says of a partition proves nothing about its log, because the log may have gone on since the
    backup.
    """

    count: int = 0
    seq: int = 0  # of the decision that counted the last one
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The registration of a coordinator of one kind. `epoch` is the key's create_revision, as a broker's is."""

    kind: str
    id: int
    epoch: int
    address: str  # gRPC host:port
    incarnation: str = ""
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class Shard:
    """The owner of a shard: `incarnation` is the epoch of the owner's registration. `epoch` grows with every owner."""

    owner: int = NO_OWNER
    incarnation: int = 0
    epoch: int = 0
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class Controller:
    """The elected instance. `epoch` is its key's create_revision, which every write of metadata compares (I7)."""

    id: int
    address: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: TopicId
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)
    mod_revision: int = 0  # compared when a decision relied on this topic


@dataclass(frozen=True, slots=True)
class Partition:
    """The state of one partition. `leader_epoch` counts leaders, `partition_epoch` counts every change (KIP-497).

    `elr` holds the eligible leader replicas. They left the ISR while it was below min.insync.replicas, when nothing is
    committed (rule 8), so they still have every committed record. `last_known_elr` holds replicas that were in the ISR
    or the ELR since then, and may have lost something (KIP-966). `directories` has, for each member of these three, the
    id of the directory that holds its replica: another directory under the same broker id holds another, empty replica
    (I27).
    """

    replicas: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False  # its leader was elected outside ISR and ELR (KIP-704)
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: Mapping[int, str] = field(default_factory=dict)
    restored: int = 0  # the restoration after which it was settled; another one than the image's means doubt
    mod_revision: int = 0

    @property
    def has_none_eligible(self) -> bool:
        """It tells whether no replica is known to have all that was acknowledged. Then there is no leader, and the logs
        are compared."""
        return not (self.isr or self.elr)


@dataclass(frozen=True, slots=True)
class ResourceConfigs:
    """Configs of one scope: ("broker", "") is the cluster-wide default, ("broker", "3") one broker's."""

    values: Mapping[str, str]
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """The next block starts at `next`."""

    next: int = 0
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class BrokerIds:
    """Node ids that were handed out, by directory id, so that a directory always gets its own again."""

    next: int = 0
    by_directory: Mapping[str, int] = field(default_factory=dict)
    mod_revision: int = 0


@dataclass(frozen=True, slots=True)
class LoginSecret:
    """False salts of unknown users are derived from these random bytes, so that all brokers have the same ones."""

    value: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster's whole state at one revision. The mappings are never written to, because images share what did not
    change."""

    cluster_id: str
    revision: int = 0
    seq: int = 0
    controller: Controller | None = None
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topic_names: Mapping[TopicId, str] = field(default_factory=dict)
    partitions: Mapping[PartitionId, Partition] = field(default_factory=dict)
    configs: Mapping[tuple[str, str], ResourceConfigs] = field(default_factory=dict)
    producer_ids: ProducerIds = ProducerIds()
    broker_ids: BrokerIds = BrokerIds()
    restored: Restored = Restored()
    terms: tuple[Term, ...] = ()
    login_secret: LoginSecret = LoginSecret()
    last_incarnations: Mapping[int, LastIncarnation] = field(default_factory=dict)
    acls: Mapping[bytes, Acl] = field(default_factory=dict)
    """They are by the 16 bytes of their ids, which are random."""
    acls_revision: int = field(default=0, compare=False, repr=False)
    """It is the revision at which any ACL last changed. In a snapshot it is the snapshot's revision."""
    scram: Mapping[tuple[str, Mechanism], ScramCredential] = field(default_factory=dict)
    coordinators: Mapping[tuple[str, int], Coordinator] = field(default_factory=dict)
    shards: Mapping[tuple[str, int], Shard] = field(default_factory=dict)
    topic_revisions: Mapping[TopicId, int] = field(default_factory=dict, compare=False, repr=False)
    """It has, for each topic, the revision at which the topic or its partitions last changed. In a snapshot it is the
    snapshot's revision."""
    topics_revision: int = field(default=0, compare=False, repr=False)
    """It is the revision at which any topic last changed or was deleted. In a snapshot it is the snapshot's
    revision."""
    # These three say what changed, not what the cluster is. So two images of one state are equal whatever led to them.
    changed_partitions: Mapping[PartitionId, None] | None = field(default=None, compare=False, repr=False)
    """They are all partitions that may differ from the previous image, in themselves or in their topic. It is None if
    that is not known."""
    is_behind: bool = field(init=False)
    """It tells whether a broker's data is newer than the image, and no counted restoration explains why."""

    def __post_init__(self) -> None:
        # A restoration that was counted after a broker reported that it is ahead explains the report. Until one is
        # counted, the store may be older than the logs, and nothing may be elected by it. The value is computed once
        # here, because elections ask for it for each partition. A process that has outlived a restore may report a
        # revision that the restored store has not reached, so a report is no newer than the registration that has it.
        ahead = (min(b.ahead_of, b.mod_revision) for b in self.brokers.values() if b.ahead_of is not None)
        object.__setattr__(self, "is_behind", max(ahead, default=-1) >= self.restored.mod_revision)

    @property
    def history(self) -> History:
        return History(self.terms, self.seq, self.restored.count)

    @property
    def is_new(self) -> bool:
        """It tells whether controllers have decided nothing but to begin their terms."""
        return self.seq == len(self.terms)

    def is_older_than(self, known: History) -> bool:
        """Return whether the store has lost decisions that are in `known`, and no restoration that was counted since
        explains why."""
        parted = self.history.parts_from(known)
        # Whoever has followed `known` has followed all that was counted before the two parted. So a larger count
        # explains what is lost even if it is not known where they parted, or where it was counted.
        is_explained = self.restored.seq >= parted or self.restored.count > known.restored
        return parted <= known.seq and not is_explained

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partitions_of(self, topic: Topic) -> list[tuple[PartitionId, Partition]]:
        """Return the topic's partitions in order. A topic key is written last (I8), so each of them exists."""
        ids = (PartitionId(topic.id, n) for n in range(topic.partition_count))
        return [(p, self.partitions[p]) for p in ids]

    def broker_configs(self, broker_id: int | None = None) -> Mapping[str, str]:
        """Return the configs that were set for one broker, or for all."""
        configs = self.configs.get(("broker", "" if broker_id is None else str(broker_id)))
        return {} if configs is None else configs.values

    def owner_of(self, kind: str, shard: int) -> Coordinator | None:
        """Return the coordinator that owns the shard, as long as it is registered in the incarnation that was given the
        shard."""
        owned = self.shards.get((kind, shard))
        owner = None if owned is None else self.coordinators.get((kind, owned.owner))
        # A restarted coordinator has the same id and another epoch. It does not own what its former incarnation owned:
        # the shard has to be given to it in a higher shard epoch first, or late appends of the former one would pass
        # for its own.
        return owner if owner is not None and owned is not None and owner.epoch == owned.incarnation else None

    def shard_of(self, kind: str, key: str) -> int | None:
        """Return the shard of a group or a transactional id, or None while the kind has no topic."""
        topic = self.topics.get(SHARD_TOPICS[kind])
        return None if topic is None else shard_of(key, topic.partition_count)

    def owner_of_key(self, kind: str, key: str) -> Coordinator | None:
        """Return the owner of the key's shard."""
        shard = self.shard_of(kind, key)
        return None if shard is None else self.owner_of(kind, shard)

    def is_in_doubt(self, partition: Partition) -> bool:
        """Return whether the metadata was restored after it settled the partition, so that it proves nothing about the
        partition's log."""
        return self.is_behind or partition.restored != self.restored.count

    def live_brokers(self) -> dict[int, Broker]:
        """Return the registered brokers that are not fenced: those that may be given replicas and leadership."""
        return {n: b for n, b in self.brokers.items() if not b.fenced}

    def with_changes(self, changes: Iterable[Change], revision: int) -> ClusterImage:
        """Return the image after `changes`, which are all those of one or more complete revisions up to `revision`."""
        draft: dict[str, Any] = {}
        changed: dict[PartitionId, None] = {}
        for change in changes:
            # The partitions are collected from the image before the change, because a deleted topic is known there
            # alone.
            changed.update(dict.fromkeys(_partitions_of(self, change)))
            _apply(self, draft, change)
        # A topic that this revision deleted loses its entry, or the mapping would grow with every topic that ever
        # existed (I38).
        for topic_id in dict.fromkeys(partition_id.topic_id for partition_id in changed):
            exists = topic_id in draft.get("topic_names", self.topic_names)
            _set(self, draft, "topic_revisions", topic_id, revision if exists else None)
            draft["topics_revision"] = revision
        if "acls" in draft:
            draft["acls_revision"] = revision
        return replace(self, revision=revision, changed_partitions=changed, **draft)


@dataclass(frozen=True, slots=True)
class Change:
    """One key was put (`value` is one of the dataclasses above, or an int for `seq`) or deleted (`value` is None).

    `key` is a parsed key of `ottla_core.cluster.keys`: (kind, *identity), such as ("partition", PartitionId).
    """

    key: tuple[Any, ...]
    value: Any


_EMPTY: Final = {
    "controller": None,
    "seq": 0,
    "producer_ids": ProducerIds(),
    "broker_ids": BrokerIds(),
    "restored": Restored(),
    "terms": (),
    "login_secret": LoginSecret(),
}


def _partitions_of(image: ClusterImage, change: Change) -> Iterable[PartitionId]:
    """Return the partitions that a change is about.

    Both the topic that had the name and the topic that has it now count: a topic may be deleted and created again
    within the changes of one batch, and its name then passes to another topic id.
    """
    kind, *identity = change.key
    if kind == "partition":
        return (identity[0],)
    if kind == "topic":
        topics = (image.topics.get(identity[0]), change.value)
        return (PartitionId(topic.id, n) for topic in topics if topic is not None for n in range(topic.partition_count))
    return ()


def _apply(image: ClusterImage, draft: dict[str, Any], change: Change) -> None:
    kind, *identity = change.key
    match kind:
        case "controller" | "seq" | "producer_ids" | "broker_ids" | "restored" | "terms" | "login_secret":
            draft[kind] = _EMPTY[kind] if change.value is None else change.value
        case "broker":
            _set(image, draft, "brokers", identity[0], change.value)
        case "last_life":
            _set(image, draft, "last_incarnations", identity[0], change.value)
        case "scram":
            _set(image, draft, "scram", (identity[0], identity[1]), change.value)
        case "acl":
            _set(image, draft, "acls", identity[0], change.value)
        case "coordinator" | "shard":
            _set(image, draft, f"{kind}s", (identity[0], identity[1]), change.value)
        case "topic":
            _apply_topic(image, draft, identity[0], change.value)
        case "partition":
            _set(image, draft, "partitions", identity[0], change.value)
        case "configs":
            _set(image, draft, "configs", (identity[0], identity[1]), change.value)
        case _:
            raise ValueError(f"unknown kind of key: {change.key}")


def _apply_topic(image: ClusterImage, draft: dict[str, Any], name: str, topic: Topic | None) -> None:
    """Keep `topic_names` the inverse of `topics`, even when one name goes from one id to another."""
    topics: Mapping[str, Topic] = draft.get("topics", image.topics)
    # The name may pass from one id to another in one change. The old id must not lead to the new topic (I6).
    if name in topics:
        _set(image, draft, "topic_names", topics[name].id, None)
    _set(image, draft, "topics", name, topic)
    if topic is not None:
        _set(image, draft, "topic_names", topic.id, name)


def _set(image: ClusterImage, draft: dict[str, Any], name: str, key: Any, value: Any) -> None:
    """Set or delete one entry of the mapping `name`, copying it once per `with_changes`."""
    # It is copied once for all changes of the batch: the previous image must not see them.
    if name not in draft:
        draft[name] = copy_of(getattr(image, name))
    if value is None:
        draft[name].pop(key, None)
    else:
        draft[name][key] = value
