"""MirrorClient: a mirror's flows, translation of offsets to the copies, pause, failover and failback, verification.

    with ottla.MirrorClient("mirror-0:9680") as mirror:
        at = mirror.translate("east->west", {ottla.TopicPartition("orders", 3): 41200})
        mirror.failover("east->west", groups=["billing"])

With `redis=`, the URL in the mirrors' file, offsets are looked up in Redis first, and in the mirror only if that fails.

Several mirrors of a flow share its partitions. Any of them can translate, pause and move groups. If you connect to a
mirror, `flow` and `verify` cover only the partitions of this mirror. If you connect to brokers, with `bootstrap=`, they
cover the partitions of all mirrors that the brokers know.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeVar

from google.protobuf.message import Message

from ottla.client.kafka.private_call import raise_in_band
from ottla.client.security.logins import Login
from ottla.client.security.security import security_of
from ottla.client.security.tls import Tls
from ottla.client.units import Duration, seconds
from ottla.errors import config_error
from ottla.mirror.channels import channel_to
from ottla.mirror.flow_info import FlowInfo, MovedGroups
from ottla.mirror.redis_offsets import RedisOffsets
from ottla.mirror.verification import CopyCheck, Site, VerifiedUpTo, verify_copy
from ottla_core.model import TopicPartition
from ottla_proto import mirror_pb2 as pb
from ottla_proto.contracts import Method, Mirror

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_REDIS_S: Final = 1.0
_client_numbers = itertools.count(1)

_MOVE_S: Final = 60.0
"""How long moving groups may take: the mirror waits for each cluster in turn, and for a while if one is unreachable."""


class MirrorClient:
    """A client of mirrors. Thread-safe.

    It calls brokers, which forward to the mirrors that their setting `mirrors` names. `bootstrap` has the addresses of
    brokers; the default is OTTLA_BOOTSTRAP, then localhost:9092. With `address`, the client calls the one mirror at
    that gRPC address instead. Without arguments for brokers, OTTLA_MIRROR may name that address.

    `login` and `tls` say how the client logs in to brokers, and whether they expect TLS, as for a Producer. If the
    services have certificates, a client with an `address` needs one of the role admin: `tls` then has its files.
    `request_timeout` is the timeout of each call, in seconds. `redis` is a URL such as redis://localhost:6379/0. If it
    is set, `translate` and `positions` query Redis first, for at most one second. It needs `pip install
    'ottla[redis]'`.

    Every method raises ConnectError or ottla.TimeoutError if the mirror does not respond in time, and FatalError
    (INVALID_REQUEST) for a flow that the mirror does not have.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        bootstrap: str | Sequence[str] | None = None,
        request_timeout: Duration = 30.0,
        login: Login | None = None,
        tls: Tls | bool | None = None,
        client_id: str | None = None,
        redis: str | None = None,
    ) -> None:
        if address is not None:
            of_brokers = {"bootstrap": bootstrap, "login": login}
            if given := [name for name, value in of_brokers.items() if value is not None]:
                hint = "pass the address of a mirror, or bootstrap= with addresses of brokers"
                raise config_error(f"address and {given[0]}= can't be combined", hint=hint)
        elif bootstrap is None and login is None and tls is None:
            address = os.environ.get("OTTLA_MIRROR") or None
        self.client_id: Final = client_id or f"ottla-mirror-client-{next(_client_numbers)}"
        self._timeout_s: Final = seconds(request_timeout, "request_timeout")
        self._redis: Final = None if redis is None else RedisOffsets(redis, min(self._timeout_s, _REDIS_S))
        self._channel: Final = channel_to(address, bootstrap, self.client_id, security_of(login, tls))

    def flows(self) -> list[FlowInfo]:
        """Return all flows of the mirrors that this client reaches."""
        return self._flows("")

    def flow(self, name: str) -> FlowInfo:
        """Return one flow of the mirrors that this client reaches."""
        (found,) = self._flows(name)
        return found

    def translate(self, flow: str, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Translate source offsets into offsets in the copies.

        Each offset is that of the next record to read. The result maps each partition of a copy to its translated
        offset. A reader that continues from the translated offsets skips no unread records. The translation is exact
        for records that the mirror copied in the last hour. For older records, the translated offset may be too low,
        so the reader reads some records again. Raises UnknownTopicError for a partition that is not copied, or for an
        offset that the mirror can't translate.
        """
        if self._redis is not None and (found := self._redis.translate(flow, positions)) is not None:
            return found
        at = [pb.SourceOffset(topic=p.topic, partition=p.partition, offset=offset) for p, offset in positions.items()]
        response = self._call(Mirror.TRANSLATE_OFFSETS, pb.TranslateOffsetsRequest(flow=flow, offsets=at))
        for translated in response.offsets:
            raise_in_band(translated.error)
        return {TopicPartition(each.copy, each.partition): each.offset for each in response.offsets}

    def positions(self, flow: str, group: str) -> dict[TopicPartition, int]:
        """Return the group's offsets in the copies, according to its last checkpoints.

        The result is empty if the group has no checkpoints.
        """
        if self._redis is not None and (found := self._redis.positions(flow, group)) is not None:
            return found
        response = self._call(Mirror.GROUP_POSITIONS, pb.GroupPositionsRequest(flow=flow, group=group))
        return {TopicPartition(at.copy, at.partition): at.offset for at in response.positions}

    def pause(self, flow: str) -> None:
        """Stop copying in all mirrors of the flow, including mirrors that start later, until you call `resume`."""
        self._call(Mirror.PAUSE_FLOW, pb.PauseFlowRequest(flow=flow, paused=True))

    def resume(self, flow: str) -> None:
        """Resume a paused flow where it stopped."""
        self._call(Mirror.PAUSE_FLOW, pb.PauseFlowRequest(flow=flow))

    def failover(self, flow: str, groups: Sequence[str] = (), *, dry_run: bool = False) -> MovedGroups:
        """Pause the flow, translate the committed offsets of groups (by default all), and commit them in the target.

        If the source is unreachable, the offsets come from the last checkpoints. A failover does not move a group
        that has members in the target, and never moves a group backwards. A dry run changes nothing and returns the
        result that a failover would have.
        """
        return self._move(Mirror.FAILOVER, flow, groups, dry_run)

    def failback(self, flow: str, groups: Sequence[str] = (), *, dry_run: bool = False) -> MovedGroups:
        """Translate the offsets that groups committed in the copies, commit them in the source, and resume the flow.

        The rules of `failover` apply in the reverse direction.
        """
        return self._move(Mirror.FAILBACK, flow, groups, dry_run)

    def verify(
        self,
        flow: str,
        topics: Collection[str] = (),
        *,
        state: Path | None = None,
        source: Mapping[str, Any] = MappingProxyType({}),
        target: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[CopyCheck]:
        """Compare source and copy of each partition of a flow, record by record, without a time limit.

        `topics` are names of topics in the source. `state` is a file that stores the progress, so that the next call
        continues from there. This client reads both clusters itself: `source` and `target` are settings for that under
        Kafka's names, such as those of a login. Without `bootstrap.servers` it uses the addresses in the mirror's file.
        """
        found, known = self.flow(flow), VerifiedUpTo(state)
        if found.policy == "marked":
            raise config_error(
                f"{flow} can't be verified: its copies also contain other records",
                hint="compare record counts instead",
            )
        return [
            verify_copy(Site(found.source_bootstrap, source), Site(found.target_bootstrap, target), partition, known)
            for partition in sorted(found.partitions, key=lambda p: (p.topic, p.partition))
            if partition.position is not None and (not topics or partition.topic in topics)
        ]

    def close(self) -> None:
        self._channel.close()
        if self._redis is not None:
            self._redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _move(
        self,
        method: Method[pb.MoveGroupsRequest, pb.MoveGroupsResponse],
        flow: str,
        groups: Sequence[str],
        dry_run: bool,
    ) -> MovedGroups:
        request = pb.MoveGroupsRequest(flow=flow, groups=groups, dry_run=dry_run)
        return MovedGroups.of(self._call(method, request, _MOVE_S))

    def _flows(self, name: str) -> list[FlowInfo]:
        response = self._call(Mirror.MIRROR_STATUS, pb.MirrorStatusRequest(flow=name))
        return [FlowInfo.of(flow) for flow in response.flows]

    def _call(self, method: Method[Request, Response], request: Request, least_s: float = 0.0) -> Response:
        return self._channel.call(method, request, timeout=max(least_s, self._timeout_s))
