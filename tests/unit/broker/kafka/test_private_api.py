"""The private API: which clients are shown and served it, what it calls, and how it reports errors."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from images import image_of

from ottla_broker.kafka import answer_budget, private_methods
from ottla_broker.kafka.apis import APIS, PRIVATE
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.forwarding import coordinator_calls
from ottla_broker.kafka.handlers import ottla_call
from ottla_broker.kafka.network.connection import CloseConnectionError
from ottla_broker.kafka.private_methods import PRIVATE_METHODS, SMALL_BYTES
from ottla_broker.kafka.wire.frames import Caller, KafkaContext, Parts, read_head
from ottla_broker.peers.mirrors import Mirrors
from ottla_core.cluster.image import ClusterImage, Coordinator, Shard
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka import codec
from ottla_core.kafka.messages import ApiVersionsRequest, ApiVersionsResponse, RequestHeader
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import NO_OWNER, PartitionId, TopicId
from ottla_core.routing import GROUP, TXN
from ottla_core.rpc.parts import PARTITIONS_AT_ONCE
from ottla_core.telemetry import Metrics
from ottla_proto import broker_pb2, controller_pb2, group_pb2, txn_pb2
from ottla_proto.common_pb2 import Error, ShardsRequest, ShardsResponse, ShardStanding
from ottla_proto.contracts import Broker, ClientCalls, Controller, Group, Method, Mirror, Txn


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call be repeated."""
    monkeypatch.setattr(coordinator_calls, "_HAND_OVER_S", 0.0)


class Services:
    """A backend in front of coordinators and a controller; `asked` is what they got, `answers` what they respond."""

    def __init__(self, image: ClusterImage | None = None, **answers: Any) -> None:
        self.image = image or image_of(1)
        self.node_id = 0
        self.replicas: Any = None
        self.mirrors: Any = Mirrors(())
        self.coordinators = self.controller = self.metadata = self
        self.asked: list[tuple[str, str, Any, float]] = []
        self._answers = answers

    def owner(self, kind: str, key: str) -> Any:
        return SimpleNamespace(address=f"{kind} of {key}")

    async def ask(self, coordinator: Any, method: Method[Any, Any], request: Any, timeout: float) -> Any:
        self.asked.append((coordinator.address, method.path, request, timeout))
        return self._answer(method)

    async def call(self, method: Method[Any, Any], request: Any, *, timeout: float, principal: str = "") -> Any:
        self.asked.append(("controller", method.path, request, timeout))
        return self._answer(method)

    async def wait_for(self, condition: object, timeout: float) -> None:
        await asyncio.Event().wait()

    def _answer(self, method: Method[Any, Any]) -> Any:
        answer = self._answers.get(method.name) or method.response()
        if isinstance(answer, OttlaError):
            raise answer
        return answer


def connected() -> Caller:
    return Caller("10.0.0.2", "10.0.0.1", "inside")


async def called(
    backend: Any, method: str, body: bytes, timeout_ms: int = 2500, caller: Caller | None = None
) -> OttlaCallResponse:
    """Call the method as a client does, and return the response as the client gets it."""
    context = KafkaContext(0, 1, "me", Reader(memoryview(b"")), caller or connected())
    request = OttlaCallRequest(method=method, timeout_ms=timeout_ms, body=body)
    response = await ottla_call.handle(cast(Backend, backend), request, context)
    return codec.decode(OttlaCallResponse, codec.encode(response, 0), 0)


# ---- who is shown it, and served -------------------------------------------------------------------------------------


def sent_by(caller: Caller, key: int, version: int, body: bytes, *, header: int) -> bytes:
    backend = SimpleNamespace(image=image_of(1), node_id=0)
    head = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id="me")
    frame = codec.encode(head, header) + body
    view = memoryview(struct.pack(">i", len(frame)) + frame)
    result = Dispatcher(cast(Backend, backend), Metrics()).handle(read_head(view), view, caller)
    parts = uvloop.run(result) if asyncio.iscoroutine(result) else result
    return b"".join(cast(Parts, parts))


def shown_to(caller: Caller, name: str, version: int = 3, software_version: str = "1") -> set[int]:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    if version < 3:
        request = ApiVersionsRequest()
    answered = sent_by(caller, 18, version, codec.encode(request, version), header=2 if version >= 3 else 1)
    return {api.api_key for api in codec.decode_at(ApiVersionsResponse, answered, version, 8)[0].api_keys}


def private_call(caller: Caller) -> OttlaCallResponse:
    body = codec.encode(OttlaCallRequest(method="nothing"), 0)
    answered = sent_by(caller, PRIVATE.key, 0, body, header=2)
    return codec.decode_at(OttlaCallResponse, answered, 0, 9)[0]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_client_that_calls_itself_ottla_is_shown_the_private_api_and_served(version: int) -> None:
    caller = Caller("10.0.0.2", "10.0.0.1")
    assert shown_to(caller, "ottla", version) == {*APIS, PRIVATE.key}
    assert private_call(caller).error_code == ErrorCode.UNSUPPORTED_VERSION  # of the method, which does not exist


@pytest.mark.parametrize("name", ["librdkafka", "apache-kafka-java", "ottla-2", "Ottla"])
def test_no_other_client_is_shown_the_private_api_or_served(name: str) -> None:
    caller = Caller("10.0.0.2", "10.0.0.1")
    assert shown_to(caller, name) == set(APIS)
    with pytest.raises(CloseConnectionError, match=f"API {PRIVATE.key} is not supported"):
        private_call(caller)


def test_a_client_that_gives_no_name_is_not_one_of_ottlas() -> None:
    caller = Caller("10.0.0.2", "10.0.0.1")
    for version in (0, 2):
        assert shown_to(caller, "", version) == set(APIS)
    with pytest.raises(CloseConnectionError):
        private_call(caller)


def test_an_announcement_that_is_refused_does_not_count() -> None:
    caller = Caller("10.0.0.2", "10.0.0.1")
    assert shown_to(caller, "ottla", software_version="not a version!") == set()
    with pytest.raises(CloseConnectionError):
        private_call(caller)


def test_one_connections_announcement_is_not_anothers() -> None:
    shown_to(Caller("10.0.0.2", "10.0.0.1"), "ottla")
    with pytest.raises(CloseConnectionError):
        private_call(Caller("10.0.0.2", "10.0.0.1"))


def test_the_private_api_is_not_in_the_table_of_apis() -> None:
    assert PRIVATE.key not in APIS


# ---- what it calls ---------------------------------------------------------------------------------------------------


def test_the_list_of_methods_is_short() -> None:
    """Adding a method is a decision, because any client that may connect may call it."""
    assert {each.method for each in PRIVATE_METHODS.values()} == {
        ClientCalls.IMPORT_RECORDS,
        ClientCalls.REPLICA_EPOCHS,
        Controller.DECLARE_RESTORED,
        Group.COMMIT_OFFSETS,
        Group.EXPLAIN_GROUP,
        Group.LAG,
        Group.SHARDS,
        Group.WRITE_TXN_MARKERS,
        Txn.FORGET,
        Txn.PREPARE,
        Txn.SHARDS,
        Mirror.MIRROR_STATUS,
        Mirror.TRANSLATE_OFFSETS,
        Mirror.GROUP_POSITIONS,
        Mirror.PAUSE_FLOW,
        Mirror.FAILOVER,
        Mirror.FAILBACK,
    }


@pytest.mark.parametrize(
    "path", [Broker.REPLICA_FETCH.path, Broker.SHARD_APPEND.path, Broker.CHECK_FENCE.path, "", "x"]
)
async def test_any_other_method_is_unknown(path: str) -> None:
    backend = Services()
    response = await called(backend, path, b"")
    assert (response.error_code, response.body) == (ErrorCode.UNSUPPORTED_VERSION, b"")
    assert "is not a method that clients may call" in (response.error_message or "")
    assert backend.asked == []


@pytest.mark.parametrize(
    ("method", "request_", "where"),
    [
        (Group.LAG, group_pb2.LagRequest(group="g"), "group of g"),
        (Group.COMMIT_OFFSETS, group_pb2.CommitOffsetsRequest(group="g", only_first=True), "group of g"),
        (Group.EXPLAIN_GROUP, group_pb2.ExplainGroupRequest(group="g"), "group of g"),
        (Txn.FORGET, txn_pb2.ForgetRequest(transactional_id="t"), "txn of t"),
        (Controller.DECLARE_RESTORED, controller_pb2.DeclareRestoredRequest(), "controller"),
    ],
)
async def test_a_method_goes_to_the_service_that_has_it(method: Method[Any, Any], request_: Any, where: str) -> None:
    backend = Services()
    response = await called(backend, method.path, request_.SerializeToString())
    ((asked, path, forwarded, timeout),) = backend.asked
    assert (asked, path, forwarded) == (where, method.path, request_)
    assert 2.4 < timeout <= 2.5
    assert (response.error_code, response.error_message) == (0, None)


async def test_a_forwarded_request_names_its_sender_even_if_it_claims_another() -> None:
    backend = Services()
    request = txn_pb2.PrepareRequest(transactional_id="t", client_id="another", client_host="10.9.9.9")
    await called(backend, Txn.PREPARE.path, request.SerializeToString())
    ((_, _, forwarded, _),) = backend.asked
    assert forwarded == txn_pb2.PrepareRequest(transactional_id="t", client_id="me", client_host="10.0.0.2")


@pytest.mark.parametrize(("timeout_ms", "expected"), [(-1, 0.001), (0, 0.001), (2**31 - 1, 600.0)])
async def test_a_calls_time_is_bounded_on_both_sides(timeout_ms: int, expected: float) -> None:
    backend = Services()
    await called(backend, Group.LAG.path, b"", timeout_ms)
    assert backend.asked[0][3] == expected


class MirrorCalls:
    """Mirrors; `asked` is what they got."""

    def __init__(self) -> None:
        self.asked: list[tuple[Method[Any, Any], Any, float]] = []

    async def call(self, method: Method[Any, Any], request: Any, limit_s: float) -> Any:
        self.asked.append((method, request, limit_s))
        return method.response()

    async def status(self, request: Any, limit_s: float) -> Any:
        return await self.call(Mirror.MIRROR_STATUS, request, limit_s)


@pytest.mark.parametrize(
    "method", [each.method for each in PRIVATE_METHODS.values() if each.method.service == "Mirror"]
)
async def test_a_mirrors_method_goes_to_the_mirrors(method: Method[Any, Any]) -> None:
    backend = Services()
    backend.mirrors = MirrorCalls()
    request = method.request(flow="east->west")
    response = await called(backend, method.path, request.SerializeToString())
    assert response.error_code == 0
    assert backend.mirrors.asked == [(method, request, 2.5)]
    assert backend.asked == []


async def test_a_response_comes_back_whole() -> None:
    lag = group_pb2.LagResponse(partitions=[group_pb2.PartitionLag(topic="t", partition=3)])
    response = await called(Services(Lag=lag), Group.LAG.path, b"")
    assert group_pb2.LagResponse.FromString(response.body) == lag


@pytest.mark.parametrize("raised", [True, False])
async def test_an_error_is_that_of_the_method_with_text_and_hint(*, raised: bool) -> None:
    error = OttlaError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no group", hint="look again")
    in_band = Error(code=error.code, message="there is no group; look again")
    answer = error if raised else group_pb2.LagResponse(error=in_band)
    response = await called(Services(Lag=answer), Group.LAG.path, b"")
    assert response.error_code == 0
    assert group_pb2.LagResponse.FromString(response.body).error == in_band


async def test_garbage_and_what_is_too_large_is_refused() -> None:
    backend = Services()
    for body, words in ((b"\xff", "is not a Lag request"), (b"\n" + bytes(SMALL_BYTES), "is too large")):
        response = await called(backend, Group.LAG.path, body)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert words in (response.error_message or "")
    assert backend.asked == []


@pytest.mark.story("small-calls-with-large-answers")
async def test_a_large_answer_is_paid_by_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_budget, "BYTES_PER_S", 1)
    large = Error(code=ErrorCode.UNKNOWN_SERVER_ERROR, message="x" * (answer_budget.AT_ONCE_BYTES + 60))
    backend, greedy = Services(Lag=group_pb2.LagResponse(error=large)), connected()
    assert (await called(backend, Group.LAG.path, b"", caller=greedy)).error_code == 0
    refused = await called(backend, Group.LAG.path, b"", caller=greedy)
    assert refused.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "the next one may begin in 8" in (refused.error_message or "")
    assert len(backend.asked) == 1
    assert (await called(backend, Group.LAG.path, b"", caller=connected())).error_code == 0


async def test_a_call_waits_if_it_has_the_time() -> None:
    backend, greedy = Services(), connected()
    greedy.answers.pay(answer_budget.AT_ONCE_BYTES + answer_budget.BYTES_PER_S // 4, asyncio.get_running_loop().time())
    calling = asyncio.create_task(called(backend, Group.LAG.path, b"", caller=greedy))
    await called(backend, Group.SHARDS.path, b"", caller=connected())
    assert not calling.done()
    assert (await calling).error_code == 0


async def test_a_commit_is_taken_only_if_kafkas_message_can_not_express_it() -> None:
    backend = Services()
    transaction = group_pb2.OffsetsTransaction(transactional_id="t")
    for request in (
        group_pb2.CommitOffsetsRequest(group="g"),
        group_pb2.CommitOffsetsRequest(group="g", only_first=True, transaction=transaction),
    ):
        response = await called(backend, Group.COMMIT_OFFSETS.path, request.SerializeToString())
        error = group_pb2.CommitOffsetsResponse.FromString(response.body).error
        assert error.code == ErrorCode.INVALID_REQUEST
        assert "send any other one as Kafka's OffsetCommit" in error.message
    assert backend.asked == []


async def test_a_commit_has_room_for_what_clients_send_at_once() -> None:
    backend = Services()
    partitions = [
        group_pb2.OffsetToCommit(topic="t" * 20, partition=n, offset=1 << 40, topic_id=bytes(16))
        for n in range(PARTITIONS_AT_ONCE)
    ]
    request = group_pb2.CommitOffsetsRequest(group="g", only_first=True, offsets=partitions)
    assert (await called(backend, Group.COMMIT_OFFSETS.path, request.SerializeToString())).error_code == 0
    too_large = await called(backend, Group.COMMIT_OFFSETS.path, bytes(1 << 20))
    assert "is too large" in (too_large.error_message or "")
    assert len(backend.asked) == 1


@given(st.sampled_from(sorted(PRIVATE_METHODS)), st.binary(max_size=100))
def test_whatever_comes_is_answered(path: str, body: bytes) -> None:
    backend = Services(sharded())
    backend.replicas = SimpleNamespace(table=SimpleNamespace(find=_no_partition))
    response = uvloop.run(called(backend, path, body))
    assert response.error_code in (0, ErrorCode.INVALID_REQUEST)
    PRIVATE_METHODS[path].method.response.FromString(response.body)


def _no_partition(partition_id: PartitionId) -> Any:
    raise OttlaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")


# ---- shards and markers ----------------------------------------------------------------------------------------------


def sharded() -> ClusterImage:
    """Coordinator 5 has the shards 0 and 2 of groups. Shard 1 was given to a coordinator that is gone. There is one
    shard of transactional ids."""
    shards = {(GROUP, 0): Shard(5, 70, 1), (GROUP, 1): Shard(6, 80, 1), (GROUP, 2): Shard(5, 70, 1), (TXN, 7): Shard()}
    coordinators = {(GROUP, 5): Coordinator(GROUP, 5, 70, "there:1")}
    return replace(image_of(1), shards=shards, coordinators=coordinators)


async def test_shards_are_those_of_all_coordinators_and_those_that_nobody_owns() -> None:
    owned = [ShardStanding(shard=number, phase="serving", coordinator=5) for number in (0, 2)]
    backend = Services(sharded(), Shards=ShardsResponse(shards=owned))
    response = await called(backend, Group.SHARDS.path, ShardsRequest().SerializeToString())
    found = ShardsResponse.FromString(response.body).shards
    assert [(shard.shard, shard.phase, shard.coordinator) for shard in found] == [
        (0, "serving", 5),
        (2, "serving", 5),
        (1, "unowned", NO_OWNER),
    ]
    assert [(address, path) for address, path, *_ in backend.asked] == [("there:1", Group.SHARDS.path)]


async def test_an_error_of_one_coordinator_is_the_error_of_all_shards() -> None:
    backend = Services(sharded(), Shards=ShardsResponse(error=Error(code=ErrorCode.NOT_COORDINATOR)))
    response = await called(backend, Group.SHARDS.path, b"")
    assert ShardsResponse.FromString(response.body).error.code == ErrorCode.NOT_COORDINATOR


def marker(*shards: int) -> bytes:
    return group_pb2.WriteShardMarkersRequest(markers=[group_pb2.ShardsMarker(shards=shards)]).SerializeToString()


@pytest.mark.parametrize(
    ("shards", "code"),
    [((2,), 0), ((1,), ErrorCode.COORDINATOR_NOT_AVAILABLE), ((), ErrorCode.INVALID_REQUEST), ((0, 2), 42)],
)
async def test_a_marker_goes_to_the_owner_of_its_one_shard(shards: tuple[int, ...], code: int) -> None:
    backend = Services(sharded())
    response = await called(backend, Group.WRITE_TXN_MARKERS.path, marker(*shards))
    assert group_pb2.WriteShardMarkersResponse.FromString(response.body).error.code == code
    assert [address for address, *_ in backend.asked] == ([] if code else ["there:1"])


# ---- records that are imported ---------------------------------------------------------------------------------------


async def test_records_are_imported_here_within_the_shorter_of_both_times(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[Any] = []

    async def import_records(*arguments: Any, timeout_s: float) -> int:
        imported.append((*arguments, timeout_s))
        return 12

    monkeypatch.setattr(private_methods, "import_records", import_records)
    backend = Services()
    backend.replicas = SimpleNamespace(table=SimpleNamespace(find=lambda partition_id: partition_id))
    request = broker_pb2.ImportRecordsRequest(
        topic_id=b"i" * 16, partition=3, expected_next_offset=7, records=bytes(2 * SMALL_BYTES), timeout_ms=1500
    )
    response = await called(backend, ClientCalls.IMPORT_RECORDS.path, request.SerializeToString())
    assert broker_pb2.ImportRecordsResponse.FromString(response.body).next_offset == 12
    assert imported == [(PartitionId(TopicId(b"i" * 16), 3), 7, request.records, 0, 1.5)]
