"""The broker's way to the mirrors, for clients that reach no port but the broker's.

Each mirror has some of the flows, and a flow's mirrors share its partitions. So the status of a flow is that of all its
mirrors together, and any of them serves all other calls about the flow. Mirrors do not register anywhere: a mirror
belongs to two clusters or more, and some of them are Kafka's. Their addresses are a setting of the brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.internal_tls import InternalTls
from ottla_core.rpc.peers import Peers
from ottla_proto import mirror_pb2 as pb
from ottla_proto.contracts import Method, Mirror

_STATUS_S: Final = 3.0
"""The time for each mirror's status, which is in its memory. A mirror that takes longer hangs."""
_LEAST_S: Final = 0.001

_Answers = Mapping[str, "pb.MirrorStatusResponse | OttlaError"]
"""The status of each mirror by its address, or why there is none."""


class Mirrors:
    """A component: a connection to a mirror is made at the first call."""

    def __init__(self, addresses: Sequence[str], tls: InternalTls | None = None) -> None:
        self._addresses: Final = tuple(addresses)
        self._peers: Final = Peers(tls=tls)

    async def start(self) -> None:
        """Nothing to do before the first call."""

    async def stop(self) -> None:
        await self._peers.close()

    async def status(self, request: pb.MirrorStatusRequest, limit_s: float) -> pb.MirrorStatusResponse:
        """Return the flows of all mirrors. Raises like `call`."""
        answers = await self._statuses(request.flow, limit_s)
        address_of_flow(answers)
        return merged(answers)

    async def call(self, method: Method[Any, Any], request: Any, limit_s: float) -> Any:
        """Return the response of the first mirror that has the request's flow, possibly with an error in it.

        It is sent once, since it may move groups. Raises INVALID_CONFIG if no mirrors are known, INVALID_REQUEST if
        none of them has the flow, and NETWORK_EXCEPTION if none responds.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + limit_s
        address = address_of_flow(await self._statuses(request.flow, limit_s))
        return await self._peers.at(address).ask(method, request, timeout=max(_LEAST_S, give_up_at - loop.time()))

    async def _statuses(self, flow: str, limit_s: float) -> _Answers:
        """Ask all mirrors at once."""
        if not self._addresses:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                "the brokers of this cluster know no mirrors",
                hint="set `mirrors` (OTTLA_BROKER__MIRRORS) of each broker to the mirrors' gRPC addresses, such as "
                "mirror-0:9680",
            )
        asked = [self._status(address, flow, min(limit_s, _STATUS_S)) for address in self._addresses]
        return dict(zip(self._addresses, await asyncio.gather(*asked), strict=True))

    async def _status(self, address: str, flow: str, limit_s: float) -> pb.MirrorStatusResponse | OttlaError:
        try:
            request = pb.MirrorStatusRequest(flow=flow)
            return await self._peers.at(address).ask(Mirror.MIRROR_STATUS, request, timeout=limit_s)
        except OttlaError as error:
            return error


def address_of_flow(answers: _Answers) -> str:
    """Return the address of the first mirror that has the flow. Raises OttlaError if there is none."""
    silent = [address for address, answer in answers.items() if isinstance(answer, OttlaError)]
    if len(silent) == len(answers):
        raise OttlaError(
            ErrorCode.NETWORK_EXCEPTION,
            f"no mirror responds at {', '.join(silent)}",
            hint="start a mirror, or correct `mirrors` (OTTLA_BROKER__MIRRORS) of the brokers",
        )
    found = {address: answer for address, answer in answers.items() if isinstance(answer, pb.MirrorStatusResponse)}
    for address, answer in found.items():
        if not answer.error.code:
            return address
    error = next(iter(found.values())).error
    others = f"; no mirror responds at {', '.join(silent)}" if silent else ""
    raise OttlaError(error.code, f"{error.message}{others}")


def merged(answers: _Answers) -> pb.MirrorStatusResponse:
    """Put the statuses together by flows. A flow's partitions are those of all its mirrors that respond: others soon
    lose their partitions to them."""
    flows: dict[str, pb.FlowStatus] = {}
    for answer in answers.values():
        if isinstance(answer, OttlaError) or answer.error.code:
            continue
        for flow in answer.flows:
            known = flows.setdefault(flow.name, flow)
            if known is not flow:
                _add(known, flow)
    return pb.MirrorStatusResponse(flows=flows.values())


def _add(known: pb.FlowStatus, other: pb.FlowStatus) -> None:
    known.partitions.extend(other.partitions)
    known.topics.extend(other.topics)
    known.groups.extend(other.groups)
    known.leads |= other.leads
    known.trouble = "; ".join(dict.fromkeys(filter(None, (known.trouble, other.trouble))))
