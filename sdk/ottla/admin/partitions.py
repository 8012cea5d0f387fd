"""admin.partitions: elect leaders, compare the replicas of a partition, import batches into a partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ottla.admin.configs import Configs
from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.propagation import until_all
from ottla.admin.replica_verification import Progress, ReplicaCheck, check_replicas
from ottla.admin.topics import check_partition, leader_of, topic_in
from ottla.client.grouping import grouped
from ottla.client.kafka.apis import ELECT_LEADERS
from ottla.client.kafka.exchange import Exchange, Terms
from ottla.client.units import Duration
from ottla.errors import ErrorCode, NotABrokerError, OttlaError, error_from_code
from ottla.machines.metadata import ClusterView
from ottla_core.kafka.messages import ElectLeadersRequest, ElectLeadersResponse
from ottla_core.model import NO_LEADER, PartitionId, TopicPartition

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
"""Kafka's ElectionType."""
_POLICY: Final = "cleanup.policy"
_MOST_LEADERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Election:
    """The result of a leader election for one partition.

    `leader` is the elected broker, or -1 if no leader was elected; `error` then gives the reason.
    """

    topic: str
    partition: int
    leader: int
    error: OttlaError | None = None

    @property
    def was_needed(self) -> bool:
        """Whether an election was needed; False if the partition already had the right leader."""
        return self.error is None or self.error.code != ErrorCode.ELECTION_NOT_NEEDED


class Partitions:
    """The partitions of a cluster and their replicas."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel
        self._leaders: Final[dict[TopicPartition, tuple[PartitionId, str]]] = {}
        """The leader's id and address for each partition that was imported into, until a call to the leader fails."""

    def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: Duration | None = None,
    ) -> tuple[Election, ...]:
        """Elect the preferred leader (the first replica) of these partitions; None means all with another leader.

        With `unclean`, a partition without a leader gets the live replica with the longest log. If that replica lacks
        acknowledged records, they are lost. Returns the result of each election once every reachable broker knows the
        leaders.

        Raises ConnectError and ottla.TimeoutError. If an election fails, its Election has the error.
        """
        deadline = self._channel.deadline(timeout)
        named = None if partitions is None else list(partitions)
        before = self._channel.cluster.fetch_metadata(
            dict.fromkeys(topic for topic, _ in named or ()), all_topics=named is None, timeout=deadline.left()
        )
        elections = self._channel.exchange(election(named, unclean=unclean), deadline).response
        held = [election for election in elections if election.error is None]
        if not held:
            return elections
        view = self._until_known(held, before, deadline)
        return tuple(election if election.error else _with_leader(election, view) for election in elections)

    def verify_replicas(
        self, topic: str, partition: int, *, on_progress: Progress | None = None, timeout: Duration | None = None
    ) -> ReplicaCheck:
        """Read every replica of a partition from its own broker and compare them, batch by batch, byte by byte.

        Replicas of a compacted topic may lack superseded records. Therefore two replicas are compared only where both
        have a record; for a record that one of them lacks, a newer record with the same key, or a tombstone, must
        exist.

        The comparison begins at the highest of the logs' start offsets and ends at the smallest high watermark; records
        beyond that may still change. `on_progress` is called with (offset, end offset) after every fetch. `timeout`, in
        seconds, is for each response. A replica that can't be read is listed in the result.

        Raises UnknownTopicError, ConnectError, ottla.TimeoutError.
        """
        deadline = self._channel.deadline(timeout)
        view = self._channel.cluster.fetch_metadata([topic], timeout=deadline.left())
        found = topic_in(self._channel, view, topic)
        check_partition(found, partition)
        return check_replicas(
            self._channel.cluster,
            topic,
            PartitionId(found.id, partition),
            found.partitions[partition],
            timeout=deadline.timeout,
            on_progress=on_progress or (lambda offset, end: None),
            compacted="compact" in Configs(self._channel).get(topic=topic, timeout=deadline.left())[_POLICY].value,
        )

    def can_import(self, *, timeout: Duration | None = None) -> bool:
        """Return whether the brokers of this cluster serve `import_records`. Only ottla's do.

        Raises ConnectError and ottla.TimeoutError.
        """
        from ottla.admin.private_calls import import_of_nothing

        cluster, deadline = self._channel.cluster, self._channel.deadline(timeout)
        try:
            cluster.exchange_any(import_of_nothing(), timeout=deadline.left())
        except OttlaError as error:
            if isinstance(error, NotABrokerError) or error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return False
        return True

    def import_records(
        self,
        topic: str,
        partition: int,
        records: bytes,
        *,
        expected_offset: int,
        log_start_offset: int = 0,
        timeout: Duration | None = None,
    ) -> int:
        """Append whole batches from another log, keeping their offsets, and return the offset after them.

        The partition must end at `expected_offset`, or already contain the first of the batches; afterwards it begins
        at `log_start_offset`. The batches, at most 1000, must not have producer ids or belong to transactions. If you
        repeat a call, no batch is appended twice.

        Raises OttlaError with OFFSET_MISMATCH if the partition ends elsewhere, UnknownTopicError and ConnectError.
        """
        from ottla.admin.private_calls import import_of

        at, deadline = TopicPartition(topic, partition), self._channel.deadline(timeout)

        def attempt() -> int:
            found, address = self._leader(at, deadline)
            asked = import_of(
                found,
                records,
                expected_offset=expected_offset,
                log_start_offset=log_start_offset,
                timeout_ms=int(1000 * deadline.left()),
            )
            try:
                return self._channel.cluster.exchange(address, asked, timeout=deadline.left())
            except OttlaError:
                self._leaders.pop(at, None)  # another broker may lead by now, or the topic may have been recreated
                raise

        return self._channel.retried(attempt, deadline)

    def _leader(self, at: TopicPartition, deadline: Deadline) -> tuple[PartitionId, str]:
        known = self._leaders.get(at)
        if known is None:
            view = self._channel.cluster.fetch_metadata([at.topic], timeout=deadline.left())
            found = topic_in(self._channel, view, at.topic)
            known = PartitionId(found.id, at.partition), leader_of(view, found, at.partition)
            if len(self._leaders) >= _MOST_LEADERS:
                self._leaders.clear()
            self._leaders[at] = known
        return known

    def _until_known(self, elections: list[Election], before: ClusterView, deadline: Deadline) -> ClusterView:
        """Wait until brokers know the leader epochs that these elections began, and return what they know."""
        epochs = {
            (topic.name, number): p.leader_epoch
            for topic in before.topics.values()
            for number, p in enumerate(topic.partitions)
        }

        def known(view: ClusterView) -> bool:
            for election in elections:
                topic = view.topics.get(election.topic)
                if topic is not None and election.partition < len(topic.partitions):
                    now = topic.partitions[election.partition].leader_epoch
                    if now <= epochs.get((election.topic, election.partition), -1):
                        return False
            return True

        topics = dict.fromkeys(election.topic for election in elections)
        return until_all(self._channel, topics, known, deadline, "leaders are elected")


def _with_leader(election: Election, view: ClusterView) -> Election:
    """Return the election with its leader, which Kafka's response does not name."""
    topic = view.topics.get(election.topic)
    if election.leader != NO_LEADER or topic is None or election.partition >= len(topic.partitions):
        return election
    return replace(election, leader=topic.partitions[election.partition].leader)


def election(partitions: Iterable[tuple[str, int]] | None, *, unclean: bool) -> Exchange[tuple[Election, ...]]:
    """Return the exchange that elects leaders, of all partitions for None."""
    topics = None
    if partitions is not None:
        of_topic = ElectLeadersRequest.TopicPartitions
        topics = [of_topic(topic=topic, partitions=numbers) for topic, numbers in grouped(partitions).items()]

    def build(terms: Terms) -> ElectLeadersRequest:
        election_type = _UNCLEAN if unclean else _PREFERRED
        return ElectLeadersRequest(election_type=election_type, topic_partitions=topics, timeout_ms=terms.timeout_ms)

    def read(response: ElectLeadersResponse) -> tuple[Election, ...]:
        return tuple(
            _election(topic.topic, result)
            for topic in response.replica_election_results
            for result in topic.partition_result
        )

    return Exchange(ELECT_LEADERS, build, read)


def _election(topic: str, result: ElectLeadersResponse.PartitionResult) -> Election:
    if not result.error_code:
        return Election(topic, result.partition_id, NO_LEADER)
    partition = TopicPartition(topic, result.partition_id)
    error = error_from_code(result.error_code, result.error_message or "", of=partition)
    return Election(topic, result.partition_id, NO_LEADER, error)
