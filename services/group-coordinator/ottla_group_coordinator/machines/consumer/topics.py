"""What groups need to know of the topics: their ids, their partitions, and whether anything of that has changed.

A group begins an epoch if the number of partitions of a topic, or the racks of its replicas, have changed (KIP-1101).
No heartbeat could afford to look for that. So each change of the metadata that matters makes another `version`, and a
group looks at its topics only if that is not the one it has seen.
"""

from __future__ import annotations

from collections.abc import Set
from hashlib import blake2b
from typing import Final, Protocol

from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.model import PartitionId, TopicId

_HASH_BYTES: Final = 8
_HASHES: Final = 1 << 64


class GroupTopics(Protocol):
    """The topics as a decision sees them."""

    @property
    def version(self) -> int:
        """It grows whenever a topic's partitions or their racks may have changed."""
        ...

    @property
    def matches_version(self) -> int:
        """It grows whenever what regular expressions match may have changed: a topic has come or gone, or an ACL has
        changed."""
        ...

    def get(self, name: str) -> Topic | None: ...

    def name(self, topic_id: TopicId) -> str | None: ...

    def topic_hash(self, topic: Topic) -> int: ...


def hash_of(names: Set[str], topics: GroupTopics) -> int:
    """Return the hash of these topics, in any order, as a signed number of eight bytes. 0: none of them exists."""
    total = sum(topics.topic_hash(topic) for name in names if (topic := topics.get(name)) is not None) % _HASHES
    return total - _HASHES if total >= _HASHES // 2 else total


class ImageTopics:
    """The topics of the newest image. `on_image` is for the metadata follower."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self._image = image or ClusterImage("")
        self._hashes: Final[dict[TopicId, int]] = {}
        # A broker that restarts has no registration for a while. That is no reason to assign anew, so its rack is kept.
        self._racks: Final = _racks(self._image)
        self._version = self._matches_version = 1

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
        if found is None:
            found = self._hashes[topic.id] = self._hash(topic)
        return found

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        self._image = new
        if old.topic_names is not new.topic_names or old.acls_revision != new.acls_revision:
            self._matches_version += 1
        if self._take_racks(old, new) or new.changed_partitions is None:
            self._hashes.clear()
            self._version += 1
            return
        changed = dict.fromkeys(p.topic_id for p in new.changed_partitions if _differs(p, old, new))
        for topic_id in changed:
            self._hashes.pop(topic_id, None)
        self._version += bool(changed)

    def _take_racks(self, old: ClusterImage, new: ClusterImage) -> bool:
        """Return whether a broker has another rack than before."""
        if old.brokers is new.brokers:
            return False
        racks = _racks(new)
        is_other = any(self._racks.get(number) != rack for number, rack in racks.items())
        self._racks.update(racks)
        return is_other

    def _hash(self, topic: Topic) -> int:
        digest = blake2b(topic.id + topic.partition_count.to_bytes(4), digest_size=_HASH_BYTES)
        for number in range(topic.partition_count):
            partition = self._image.partitions.get(PartitionId(topic.id, number))
            replicas = () if partition is None else partition.replicas
            digest.update(repr(sorted(self._racks[each] for each in replicas if each in self._racks)).encode())
        return int.from_bytes(digest.digest())


def _racks(image: ClusterImage) -> dict[int, str]:
    return {number: broker.rack for number, broker in image.brokers.items() if broker.rack}


def _differs(partition: PartitionId, old: ClusterImage, new: ClusterImage) -> bool:
    was, now = old.partitions.get(partition), new.partitions.get(partition)
    # A topic gets its partitions first, and then its number of partitions (I8).
    if was is None or now is None or was.replicas != now.replicas:
        return True
    of_old, of_new = old.topic_by_id(partition.topic_id), new.topic_by_id(partition.topic_id)
    return of_old is None or of_new is None or of_old.partition_count != of_new.partition_count
