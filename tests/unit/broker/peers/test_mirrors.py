"""How a broker finds a mirror for a call, and puts the statuses of several together."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_broker.peers import mirrors
from ottla_broker.peers.mirrors import Mirrors
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import mirror_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method, Mirror

A, B, C = "a:1", "b:1", "c:1"
AWAY = OttlaError(ErrorCode.NETWORK_EXCEPTION, "nobody is there")
TRANSLATED = pb.TranslateOffsetsResponse(offsets=[pb.OffsetTranslated(offset=7)])


class Services:
    """Mirrors by address, each with its flows or an error. `asked` is what they got."""

    def __init__(self, **flows: list[pb.FlowStatus] | OttlaError) -> None:
        self.asked: list[tuple[str, str, float]] = []
        self._flows = {f"{name}:1": of_mirror for name, of_mirror in flows.items()}

    def at(self, address: str) -> Any:
        services = self

        class Peer:
            async def ask(self, method: Method[Any, Any], request: Any, *, timeout: float) -> Any:
                services.asked.append((address, method.name, timeout))
                return services._answer(address, method, request)

        return Peer()

    def _answer(self, address: str, method: Method[Any, Any], request: Any) -> Any:
        flows = self._flows[address]
        if isinstance(flows, OttlaError):
            raise flows
        if method is not Mirror.MIRROR_STATUS:
            return TRANSLATED
        found = [flow for flow in flows if request.flow in ("", flow.name)]
        if request.flow and not found:
            message = f"there is no flow {request.flow!r}; the flows are {', '.join(flow.name for flow in flows)}"
            return pb.MirrorStatusResponse(error=Error(code=ErrorCode.INVALID_REQUEST, message=message))
        return pb.MirrorStatusResponse(flows=found)


def flow(name: str, *partitions: int, **fields: Any) -> pb.FlowStatus:
    copied = [pb.PartitionMirrored(topic="t", partition=number) for number in partitions]
    return pb.FlowStatus(name=name, partitions=copied, **fields)


def mirrors_of(services: Services, *addresses: str) -> Mirrors:
    made = Mirrors(addresses)
    made._peers = services  # type: ignore[assignment]  # it has all that is called
    return made


async def translate(found: Mirrors, name: str = "f", limit_s: float = 10.0) -> Any:
    return await found.call(Mirror.TRANSLATE_OFFSETS, pb.TranslateOffsetsRequest(flow=name), limit_s)


async def test_a_call_goes_once_to_the_first_mirror_that_has_its_flow() -> None:
    services = Services(a=[flow("other")], b=[flow("f")], c=[flow("f")])
    assert await translate(mirrors_of(services, A, B, C)) is TRANSLATED
    calls = [(address, timeout) for address, method, timeout in services.asked if method == "TranslateOffsets"]
    ((address, timeout),) = calls
    assert address == B
    assert 9.0 < timeout <= 10.0


async def test_a_mirror_that_does_not_respond_is_passed_over() -> None:
    services = Services(a=AWAY, b=[flow("f")])
    assert await translate(mirrors_of(services, A, B)) is TRANSLATED
    limits = {timeout for _, method, timeout in services.asked if method == "MirrorStatus"}
    assert limits == {mirrors._STATUS_S}, "a mirror that hangs must not take the time of the call"


async def test_a_short_call_asks_for_the_status_within_its_time() -> None:
    services = Services(a=[flow("f")])
    await translate(mirrors_of(services, A), limit_s=0.5)
    assert services.asked[0] == (A, "MirrorStatus", 0.5)


async def test_without_mirrors_the_error_says_what_to_set() -> None:
    with pytest.raises(OttlaError, match="know no mirrors") as caught:
        await translate(mirrors_of(Services()))
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert "OTTLA_BROKER__MIRRORS" in caught.value.hint


async def test_if_no_mirror_responds_the_error_names_all_of_them() -> None:
    with pytest.raises(OttlaError, match="no mirror responds at a:1, b:1") as caught:
        await translate(mirrors_of(Services(a=AWAY, b=AWAY), A, B))
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


async def test_a_flow_that_no_mirror_has_is_an_error_which_also_names_the_silent_mirrors() -> None:
    with pytest.raises(OttlaError) as caught:
        await translate(mirrors_of(Services(a=[flow("g")]), A))
    assert (caught.value.code, caught.value.message) == (
        ErrorCode.INVALID_REQUEST,
        "there is no flow 'f'; the flows are g",
    )
    with pytest.raises(OttlaError, match="there is no flow 'f'; the flows are g; no mirror responds at b:1"):
        await translate(mirrors_of(Services(a=[flow("g")], b=AWAY), A, B))


async def test_a_flows_status_is_that_of_all_its_mirrors() -> None:
    services = Services(
        a=[flow("f", 0, 2, topics=[pb.TopicTrouble(copy="x")]), flow("g", 9)],
        b=[flow("f", 1, leads=True, trouble="slow", groups=[pb.GroupTrouble(group="y")])],
        c=AWAY,
    )
    found = await mirrors_of(services, A, B, C).status(pb.MirrorStatusRequest(), 10.0)
    f, g = found.flows
    assert [partition.partition for partition in f.partitions] == [0, 2, 1]
    assert (f.leads, f.trouble, [t.copy for t in f.topics], [t.group for t in f.groups]) == (True, "slow", ["x"], ["y"])
    assert (g.name, [partition.partition for partition in g.partitions]) == ("g", [9])


async def test_troubles_are_named_once() -> None:
    services = Services(a=[flow("f", trouble="p")], b=[flow("f", trouble="p")], c=[flow("f", trouble="q")])
    (found,) = (await mirrors_of(services, A, B, C).status(pb.MirrorStatusRequest(flow="f"), 10.0)).flows
    assert found.trouble == "p; q"


async def test_the_status_of_a_flow_leaves_out_mirrors_that_do_not_have_it() -> None:
    services = Services(a=[flow("g", 0)], b=[flow("f", 1)])
    (found,) = (await mirrors_of(services, A, B).status(pb.MirrorStatusRequest(flow="f"), 10.0)).flows
    assert (found.name, [partition.partition for partition in found.partitions]) == ("f", [1])
    with pytest.raises(OttlaError, match="there is no flow 'h'"):
        await mirrors_of(services, A, B).status(pb.MirrorStatusRequest(flow="h"), 10.0)
