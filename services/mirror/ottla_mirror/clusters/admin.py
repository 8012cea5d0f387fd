"""The admin of a cluster knows its topics, configs, ACLs and groups, in the form in which a mirror needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Self

import ottla
from ottla.connect import ClusterClient, KafkaTransport, acl_of, bootstrap_addresses, core_acl, list_offsets
from ottla_core.errors import ErrorCode
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicId, TopicPartition
from ottla_core.security.acl import Acl
from ottla_mirror.clusters.access import Access

CALL_S: Final = 10.0
"""A cluster counts as away if it does not answer for this long."""

Committed = Mapping[TopicPartition, int]


class TopicsFound(NamedTuple):
    """The ids of topics that exist by name, and the names of those that do not exist."""

    ids: Mapping[str, TopicId]
    gone: Collection[str]


class Admin:
    """Asks about topics, configs, ACLs and groups, and changes them. Thread-safe."""

    def __init__(self, access: Access, name: str) -> None:
        self._admin: Final = open_admin(access, name)
        self._access: Final = access
        self._name: Final = name

    def topics(self) -> Mapping[str, int]:
        """Return the topics' numbers of partitions by name, without internal topics and those that the broker can't
        describe."""
        topics = self._cluster.fetch_metadata(all_topics=True, timeout=CALL_S).topics.values()
        return {topic.name: len(topic.partitions) for topic in topics if not topic.error and not topic.is_internal}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None) -> None:
        """Create a topic, unless it exists."""
        self._admin.topics.create(name, partitions=partitions, replicas=replicas, config=config, if_exists="ok")

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.topics.add_partitions(name, total)

    def configs(self, topics: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the configs that are set on each topic itself. Topics that do not exist are left out."""
        return {
            topic: {name: e.value or "" for name, e in entries.items() if e.source == "DYNAMIC_TOPIC_CONFIG"}
            for topic, entries in self._admin.configs.of_topics(*topics).items()
        }

    def alter_configs(self, topic: str, altered: Mapping[str, str], gone: Iterable[str]) -> None:
        if altered:
            self._admin.configs.set(altered, topic=topic)
        if removed := list(gone):
            self._admin.configs.unset(*removed, topic=topic)

    def topic_acls(self) -> Collection[Acl]:
        """Return the ACLs that are for one topic by its name, or for every topic by "*"."""
        matching = ottla.AclFilter("topic", pattern="literal")
        return dict.fromkeys(map(core_acl, self._admin.acls.list(matching)))

    def create_acls(self, acls: Iterable[Acl]) -> None:
        """Create ACLs, many in one request. Those that exist are left alone."""
        self._admin.acls.create(*map(acl_of, acls))

    def end(self, topic: str, timeout: float) -> int:
        """Return the end of the topic's only partition, open transactions included.

        A reader of committed records gets there once they are decided.
        """
        partition = TopicPartition(topic, 0)
        found = list_offsets(self._cluster, {partition: LATEST_TIMESTAMP}, timeout=timeout)[partition]
        return 0 if found is None else found.offset

    def topic_ids(self, names: Collection[str]) -> Mapping[str, TopicId]:
        """Return the ids of the topics that exist. A topic that was created again has a new id (KIP-516)."""
        return self.look_up(names).ids

    def look_up(self, names: Collection[str]) -> TopicsFound:
        """Return which of these topics exist, and which do not. Those that a broker can't tell are in neither."""
        topics = self._cluster.fetch_metadata(names, timeout=CALL_S).topics
        ids = {name: topic.id for name, topic in topics.items() if not topic.error}
        return TopicsFound(ids, [n for n, t in topics.items() if t.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])

    def ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the end offsets of partitions, without those that have no leader. Raises if one does not exist."""
        return self._offsets(partitions, LATEST_TIMESTAMP, offline=set())

    def starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the log start offsets of partitions. Raises if one does not exist."""
        return self._offsets(partitions, EARLIEST_TIMESTAMP)

    def _offsets(
        self, partitions: Collection[TopicPartition], timestamp: int, *, offline: set[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        found = list_offsets(self._cluster, dict.fromkeys(partitions, timestamp), timeout=CALL_S, offline=offline)
        return {partition: 0 if at is None else at.offset for partition, at in found.items()}

    def groups(self, timeout: float) -> Sequence[str]:
        return [group.name for group in self._admin.groups.list(timeout=timeout)]

    def committed(self, group: str) -> Committed:
        """Return the group's committed offsets: none if the group does not exist."""
        return self._admin.groups.committed(group, if_missing="ok")

    def commit(self, group: str, offsets: Committed) -> None:
        """Commit for a group. Raises NON_EMPTY_GROUP while it has members."""
        self._admin.groups.commit(group, offsets)

    def close(self) -> None:
        self._admin.close()
        if "_cluster" in vars(self):
            self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @cached_property
    def _cluster(self) -> ClusterClient:
        transport = KafkaTransport(self._name, self._access.security)
        return ClusterClient(bootstrap_addresses(self._access.bootstrap), transport)


def open_admin(access: Access, name: str) -> ottla.Admin:
    """Open a client for what is needed beyond `Admin`."""
    return ottla.Admin(**access.arguments(), client_id=name, request_timeout=CALL_S)
