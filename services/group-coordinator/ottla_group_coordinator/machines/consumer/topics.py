"""What groups need to know of the topics: their ids, their partitions, and whether any of these have changed.

A group begins an epoch if the number of partitions of a topic, or the racks of its replicas, have changed (KIP-1101).
Checking that in every heartbeat would cost too much. So each relevant change of the metadata gives the topics another
`version`, and a group checks its topics only if it has not seen that version.

Hashing ten thousand topics takes longer than a decision may. So the hash of each topic is kept. Changed topics are
hashed again in slices (`ImageTopics.renew`), and only then the topics get their next `version`. A topic that has not
been hashed yet counts as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Set
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.event_loop.steps import Steps
from ottla_core.model import PartitionId, TopicId

_HASH_BYTES: Final = 8
_HASHES: Final = 1 << 64
_A_STEP: Final = 500
"""How many partitions are hashed in one step."""


class GroupTopics(Protocol):
    """The topics as a decision sees them."""

    @property
    def version(self) -> int:
        """A number that grows whenever a topic's partitions or their racks may have changed."""
        ...

    @property
    def matches_version(self) -> int:
        """A number that grows whenever the matches of regular expressions may have changed: a topic was created or
        deleted, or an ACL has changed."""
        ...

    def get(self, name: str) -> Topic | None: ...

    def name(self, topic_id: TopicId) -> str | None: ...

    def topic_hash(self, topic: Topic) -> int: ...


def hash_of(names: Set[str], topics: GroupTopics) -> int:
    """Return the hash of these topics, in any order, as a signed number of eight bytes. It is 0 if none exists."""
    total = sum(topics.topic_hash(topic) for name in names if (topic := topics.get(name)) is not None) % _HASHES
    return total - _HASHES if total >= _HASHES // 2 else total


class _Hashed(NamedTuple):
    """The hash of a topic, and the brokers whose racks are in it."""

    hash: int
    placed_on: frozenset[int]


class ImageTopics:
    """The topics of the newest image. `on_image` is for the metadata follower, and `renew` follows it.

    `renew` alone writes hashes. If a decision did, `renew` would find nothing new, and other groups would never hear of
    the topic.
    """

    def __init__(self, image: ClusterImage | None = None) -> None:
        self._image = image or ClusterImage("")
        self._hashes: Final[dict[TopicId, _Hashed]] = {}
        self._changed: dict[TopicId, None] = dict.fromkeys(self._image.topic_names)
        """Topics whose hashes are older than the image."""
        # A broker that restarts has no registration for a while. Its rack is kept, so that no epoch begins for that.
        self._racks: Final = _racks(self._image)
        # A group that was just loaded has seen version 0, so it does not look before the first hashes are there.
        self._version = 0
        self._matches_version = 1

    @property
    def version(self) -> int:
        return self._version

    @property
    def matches_version(self) -> int:
        return self._matches_version

    @property
    def image(self) -> ClusterImage:
        return self._image

    def get(self, name: str) -> Topic | None:
        return self._image.topics.get(name)

    def name(self, topic_id: TopicId) -> str | None:
        return self._image.topic_names.get(topic_id)

    def topic_hash(self, topic: Topic) -> int:
        found = self._hashes.get(topic.id)
        return 0 if found is None else found.hash

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        self._image = new
        if old.topic_names is not new.topic_names or old.acls_revision != new.acls_revision:
            self._matches_version += 1
        moved = self._take_racks(old, new)
        if new.changed_partitions is None:
            self._changed = dict.fromkeys((*self._hashes, *new.topic_names))
            return
        if moved:
            self._changed |= {t: None for t, hashed in self._hashes.items() if not moved.isdisjoint(hashed.placed_on)}
        self._changed |= {p.topic_id: None for p in new.changed_partitions if _differs(p, old, new)}

    @property
    def is_old(self) -> bool:
        return bool(self._changed)

    def renew(self) -> Steps[None]:
        """Hash the changed topics again. If any hash differs, groups get another version, and check their topics."""
        while self._changed:
            changed, self._changed = self._changed, {}
            differs = False
            for topic_id in changed:
                former = self._hashes.get(topic_id)
                topic = self._image.topic_by_id(topic_id)
                if topic is not None:
                    self._hashes[topic_id] = hashed = yield from self._hash(topic)
                    differs |= former is None or former.hash != hashed.hash
                elif former is not None:
                    del self._hashes[topic_id]
                    differs = True
                yield
            self._version += differs

    def _take_racks(self, old: ClusterImage, new: ClusterImage) -> frozenset[int]:
        """Return the brokers whose racks have changed."""
        if old.brokers is new.brokers:
            return frozenset()
        racks = _racks(new)
        moved = frozenset(number for number, rack in racks.items() if self._racks.get(number) != rack)
        self._racks.update(racks)
        return moved

    def _hash(self, topic: Topic) -> Steps[_Hashed]:
        digest = blake2b(topic.id + topic.partition_count.to_bytes(4), digest_size=_HASH_BYTES)
        placed_on: set[int] = set()
        for number in range(topic.partition_count):
            partition = self._image.partitions.get(PartitionId(topic.id, number))
            replicas = () if partition is None else partition.replicas
            digest.update(repr(sorted(self._racks[each] for each in replicas if each in self._racks)).encode())
            placed_on.update(replicas)
            if number % _A_STEP == _A_STEP - 1:
                yield
        return _Hashed(int.from_bytes(digest.digest()), frozenset(placed_on))


def _racks(image: ClusterImage) -> dict[int, str]:
    return {number: broker.rack for number, broker in image.brokers.items() if broker.rack}


def _differs(partition: PartitionId, old: ClusterImage, new: ClusterImage) -> bool:
    was, now = old.partitions.get(partition), new.partitions.get(partition)
    # A topic gets its partitions first, and then its number of partitions (I8).
    if was is None or now is None or was.replicas != now.replicas:
        return True
    of_old, of_new = old.topic_by_id(partition.topic_id), new.topic_by_id(partition.topic_id)
    return of_old is None or of_new is None or of_old.partition_count != of_new.partition_count
