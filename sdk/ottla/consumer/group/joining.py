"""Joins a group once, on one thread: JoinGroup, the assignment of partitions if this member leads, SyncGroup."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.cluster import ClusterClient
from ottla.client.condition import Condition
from ottla.client.described_groups import DescribedGroup, description
from ottla.client.kafka.apis import JOIN_GROUP, SYNC_GROUP
from ottla.client.kafka.exchange import Exchange, Terms, raise_failed
from ottla.consumer.fetcher import closed_error
from ottla.consumer.group.coordinator import TRY_S, CoordinatorClient
from ottla.consumer.group.options import GroupOptions
from ottla.errors import ErrorCode, OttlaError, from_core
from ottla.machines.assignors import Subscriber
from ottla.machines.leading import encode_assignments, lead, left_out, offered, subscribed_topics
from ottla.machines.membership import Meaning, MemberIdentity, MemberSettings, Membership, MemberState
from ottla_core.kafka.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla_core.model import TopicPartition
from ottla_core.plural import counted

logger = logging.getLogger("ottla.group")

_REASON_FROM: Final = 8
"""From this version of JoinGroup on, a member says why it joins (KIP-800)."""
_REASON_CHARS: Final = 255
_NAMES_PROTOCOL_FROM: Final = 5
"""From this version on SyncGroup repeats the protocol on which the members have agreed (KIP-559)."""
_METADATA_S: Final = 10.0
_DESCRIBED_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.1
"""How long the leader waits for a broker that describes all topics, and how long it pauses in between."""


class JoinResult(NamedTuple):
    """The `partitions` assigned to this member. If it leads, `partitions_of` has the number of assigned partitions of
    each topic that members read: 0 for a topic that does not exist at the moment."""

    partitions: tuple[TopicPartition, ...]
    partitions_of: Mapping[str, int]


class JoinFailure(NamedTuple):
    """The join failed. The member is UNJOINED, and joins again when it may."""

    error: OttlaError
    meaning: Meaning


@dataclass(frozen=True)
class Claims:
    """What the member reports of itself: it still reads `held`, and its last assignment was `former`."""

    topics: frozenset[str]
    held: tuple[TopicPartition, ...]
    former: tuple[TopicPartition, ...]
    generation: int
    reason: str


class Joining:
    """Carries out a join. `lock` guards the member, which records every step."""

    def __init__(
        self,
        coordinator: CoordinatorClient,
        cluster: ClusterClient,
        options: GroupOptions,
        member: Membership,
        lock: Condition,
        claims: Claims,
    ) -> None:
        self._coordinator: Final = coordinator
        self._cluster: Final = cluster
        self._options: Final = options
        self._member: Final = member
        self._lock: Final = lock
        self._claims: Final = claims

    def run(self) -> JoinResult | JoinFailure:
        """Join. Raises the error of a user's own assignor."""
        try:
            return self._synced(self._joined())
        except OttlaError as error:
            return self._failed(from_core(error))
        except BaseException as error:
            self._failed(OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"an assignor raised {type(error).__name__}"))
            raise

    def _joined(self) -> JoinGroupResponse:
        settings = self._options.member
        claims = self._claims
        offers = offered(
            self._options.assignors, claims.topics, claims.held, claims.former, claims.generation, self._options.rack
        )
        while True:
            asked = join(self._coordinator.group, self._checked().identity, settings, offers, claims.reason)
            joined = self._coordinator.exchange(asked, timeout=settings.max_poll_interval_s + TRY_S)
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                with self._lock:
                    now = self._cluster.clock.monotonic()
                    self._checked().on_joined(
                        joined.generation_id, joined.member_id, joined.protocol_name or "", joined.leader, now
                    )
                return joined
            with self._lock:
                self._checked().take_id(joined.member_id)

    def _synced(self, joined: JoinGroupResponse) -> JoinResult:
        assignments: dict[str, bytes] = {}
        led: dict[str, int] = {}
        if self._member.leads:
            members = [
                Subscriber(member.member_id, decode_subscription(member.metadata), member.group_instance_id)
                for member in joined.members
            ]
            topics = subscribed_topics(members)
            if joined.skip_assignment:
                led = self._given_out(topics)
            else:
                partitions_of = self._partitions_of(topics)
                led = dict.fromkeys(topics, 0) | partitions_of  # missing topics are watched for, too
                assignments = self._assign(joined.protocol_name or "", partitions_of, members)
        with self._lock:
            who = self._checked().identity
        asked = sync(self._coordinator.group, who, joined.protocol_name or "", assignments)
        timeout = self._options.member.max_poll_interval_s + TRY_S
        partitions = decode_assignment(self._coordinator.exchange(asked, timeout=timeout)).partitions
        with self._lock:
            self._checked().on_synced(self._cluster.clock.monotonic())
        return JoinResult(partitions, led)

    def _assign(self, protocol: str, partitions_of: Mapping[str, int], members: list[Subscriber]) -> dict[str, bytes]:
        assignor = next(member for member in self._options.assignors if member.name == protocol)
        made = lead(assignor, partitions_of, members)
        held = [partition for member in members for partition in member.subscription.owned]
        unassigned = left_out(made, held, partitions_of)
        if unassigned:
            logger.warning(
                "group %s: the assignor %r left %s unassigned, such as %s",
                self._coordinator.group,
                protocol,
                counted(len(unassigned), "partition"),
                unassigned[0],
            )
        return encode_assignments(made)

    def _given_out(self, topics: Sequence[str]) -> dict[str, int]:
        """Return how many partitions of each topic are assigned. A leader that restarts has missed partitions that were
        added meanwhile."""
        counts = self._coordinator.exchange(description(self._coordinator.group, _assigned_counts))
        return {topic: counts[topic] for topic in topics}

    def _partitions_of(self, topics: Sequence[str]) -> dict[str, int]:
        over_at = self._cluster.clock.monotonic() + _DESCRIBED_S
        view = self._cluster.fetch_metadata(topics, timeout=_METADATA_S)
        # A broker that lags can't describe a topic that was recreated. Its partitions must not be taken from everybody.
        while view.undescribed(topics) and self._cluster.clock.monotonic() < over_at:
            self._cluster.wait(_LOOK_AGAIN_S)
            view = self._cluster.fetch_metadata(topics, timeout=_METADATA_S)
        return {name: len(topic.partitions) for name, topic in view.topics.items() if not topic.error}

    def _failed(self, error: OttlaError) -> JoinFailure:
        with self._lock:
            if self._member.state is MemberState.LEFT:
                return JoinFailure(error, Meaning.FATAL)
            return JoinFailure(
                error, self._member.on_join_failed(error.code, error.message, self._cluster.clock.monotonic())
            )

    def _checked(self) -> Membership:
        """Return the member, unless the consumer was closed meanwhile."""
        if self._member.state is MemberState.LEFT:
            raise closed_error()
        return self._member


def _assigned_counts(group: DescribedGroup) -> Counter[str]:
    """Return how many partitions of each topic the members have."""
    return Counter(
        partition.topic
        for member in group.members
        for partition in decode_assignment(member.member_assignment).partitions
    )


def join(
    group: str, who: MemberIdentity, settings: MemberSettings, offers: Mapping[str, bytes], reason: str
) -> Exchange[JoinGroupResponse]:
    """Return the exchange by which a member joins. The response comes once all members have joined. `offers` has the
    member's subscription in the form of each of its assignors, and the leader gets the subscriptions of all members.

    A new member gets its id together with MEMBER_ID_REQUIRED, and joins again with that id (KIP-394).
    """
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=offer) for name, offer in offers.items()]

    def build(terms: Terms) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=round(settings.session_timeout_s * 1000),
            rebalance_timeout_ms=round(settings.max_poll_interval_s * 1000),
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=reason[:_REASON_CHARS] if terms.version >= _REASON_FROM else None,
        )

    def read(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.error_code != ErrorCode.MEMBER_ID_REQUIRED or who.member_id:
            raise_failed(response)
        return response

    return Exchange(JOIN_GROUP, build, read, takes_errors=True)


def sync(group: str, who: MemberIdentity, protocol: str, assignments: Mapping[str, bytes]) -> Exchange[bytes]:
    """Return the exchange that waits for the leader's assignments. Its response means the member's own one, encoded.

    If the member is the leader, `assignments` has the assignment of each member, by member id.
    """

    def build(terms: Terms) -> SyncGroupRequest:
        names_protocol = terms.version >= _NAMES_PROTOCOL_FROM
        return SyncGroupRequest(
            group_id=group,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            protocol_type=PROTOCOL_TYPE if names_protocol else None,
            protocol_name=protocol if names_protocol else None,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    return Exchange(SYNC_GROUP, build, lambda response: response.assignment)
