"""The dispatch table and what it refuses, with frames made by hand."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from ottla_broker.kafka import dispatch
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.authorization.needs import NOTHING
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.network.connection import CloseConnectionError, HandlerResult
from ottla_broker.kafka.wire import codec
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire.frames import Caller, KafkaContext, read_head
from ottla_broker.replication.fetch_purgatory import FetchPurgatory
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.errors import ErrorCode
from ottla_core.kafka.codec import encode
from ottla_core.kafka.messages import DeleteGroupsRequest, DeleteGroupsResponse
from ottla_core.kafka.schema import schema_of
from ottla_core.kafka_formats.primitives import MalformedError, Reader
from ottla_core.telemetry import Metrics

ROOT = Path(__file__).parents[4]
CALLER = Caller("10.0.0.2", "10.0.0.1")


def frame(key: int, version: int, body: bytes = b"", *, client_id: bytes | None = b"me", tags: bytes = b"") -> bytes:
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    inner = struct.pack(">hhi", key, version, 77) + name + tags + body
    return struct.pack(">i", len(inner)) + inner


def handle(sent: bytes) -> HandlerResult:
    view = memoryview(sent)
    return Dispatcher(cast(Backend, None), Metrics()).handle(read_head(view), view, CALLER)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[KafkaContext]:
    """The requests that reach DeleteRecords, which is served in versions 1 and 2 and flexible from 2 on."""
    requests: list[KafkaContext] = []

    def answer(backend: Backend, request: KafkaContext) -> HandlerResult:
        requests.append(request)
        if request.client_id == "bug":
            raise KeyError("a bug")
        return [b"answer"]

    monkeypatch.setitem(APIS, 21, replace(APIS[21], versions=(1, 2), handler=answer))
    monkeypatch.setattr(dispatch, "APIS", dict(APIS))
    return requests


@pytest.mark.feature(126)
@pytest.mark.parametrize(
    ("sent", "client_id", "rest", "answered"),
    [
        (frame(21, 1, b"body"), "me", b"body", struct.pack(">ii", 10, 77) + b"answer"),
        (frame(21, 1, b"body", client_id=None), "", b"body", struct.pack(">ii", 10, 77) + b"answer"),
        (frame(21, 2, b"body", tags=b"\0"), "me", b"body", struct.pack(">iib", 11, 77, 0) + b"answer"),
        (frame(21, 2, b"body", tags=b"\1\5\2xy"), "me", b"body", struct.pack(">iib", 11, 77, 0) + b"answer"),
    ],
)
def test_headers_of_all_versions(
    seen: list[KafkaContext], sent: bytes, client_id: str, rest: bytes, answered: bytes
) -> None:
    parts = handle(sent)
    assert isinstance(parts, list)
    assert b"".join(parts) == answered
    (request,) = seen
    assert (request.client_id, request.correlation_id, request.caller) == (client_id, 77, CALLER)
    assert bytes(request.body.data[request.body.at :]) == rest


@pytest.mark.rule(71)
@pytest.mark.parametrize("version", [6, 99, 32767, -1])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(version: int) -> None:
    parts = handle(frame(18, version, b"whatever"))
    assert isinstance(parts, list)
    assert b"".join(parts) == struct.pack(">iihihhh", 16, 77, 35, 1, 18, 0, 5)


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (21, 0), (21, 3), (0, 2), (0, 14), (3, 99)])
def test_what_is_not_served_ends_the_connection(seen: list[KafkaContext], key: int, version: int) -> None:
    with pytest.raises(CloseConnectionError, match="not supported"):
        handle(frame(key, version))
    assert seen == []


def test_a_bug_ends_the_connection_and_says_nothing_of_itself(seen: list[KafkaContext], caplog: Any) -> None:
    with pytest.raises(CloseConnectionError) as closed:
        handle(frame(21, 1, client_id=b"bug"))
    assert "a bug" not in str(closed.value)
    assert "Kafka DeleteRecords failed" in caplog.text


@pytest.mark.parametrize("cut", range(8, 20))
def test_a_header_that_is_cut_off(seen: list[KafkaContext], cut: int) -> None:
    whole = frame(21, 2, client_id=b"me", tags=b"\1\5\2xy")
    with pytest.raises(MalformedError):
        handle(whole[:cut])


@pytest.mark.rule(71)
def test_the_table() -> None:
    for key, api in APIS.items():
        assert key == api.key
        assert 0 <= api.advertised_min <= api.min_version <= api.max_version
    assert APIS[0].advertised_min == 0
    assert APIS[0].max_version == 13
    assert list(APIS) == sorted(APIS)


@pytest.mark.parametrize("key", sorted(APIS))
def test_each_version_that_is_served_is_one_that_the_codec_knows(key: int) -> None:
    api = APIS[key]
    assert {api.min_version, api.max_version} <= set(schema_of(api.request.__name__).versions)


def whether_on_the_loop(module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record, for each later call of the function, whether it runs in the main thread."""
    real, called = getattr(module, name), []

    def recorded(*arguments: Any) -> Any:
        called.append(threading.current_thread() is threading.main_thread())
        return real(*arguments)

    monkeypatch.setattr(module, name, recorded)
    return called


@pytest.mark.story("large-request-is-decoded-on-the-loop")
async def test_a_large_request_is_decoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have a hundred thousand elements."""
    decoded_in = whether_on_the_loop(codec, "decode", monkeypatch)
    backend = cast(Backend, SimpleNamespace(threads=DiskThreads()))
    handle = lambda _, asked, request: DeleteGroupsResponse(results=[])  # noqa: E731
    api = control(DeleteGroupsRequest, (0, 3), handle, needs=NOTHING, errors=APIS[42].errors).handler
    for count in (10, 5_000):
        body = encode(DeleteGroupsRequest(groups_names=[f"g{n}" for n in range(count)]), 1)
        answered = api(backend, KafkaContext(1, 1, "me", Reader(memoryview(body)), CALLER))
        if asyncio.iscoroutine(answered):
            await answered
    assert decoded_in == [True, False]


@pytest.mark.story("wide-fetch-is-read-on-the-loop")
async def test_a_fetch_of_many_partitions_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty thousand topics take a tenth of a second; each may have tags besides."""
    read_in = whether_on_the_loop(fetch_wire, "read", monkeypatch)
    backend = cast(Backend, SimpleNamespace(threads=DiskThreads(), sessions=FetchSessions(lambda: 1, FetchPurgatory())))
    head, partition = struct.pack(">iiiibii", -1, 500, 1, 1 << 20, 0, 9, 9), struct.pack(">iqqi", 0, 0, -1, 1 << 20)
    answers = []
    for count in (10, 5_000):
        sent = bytearray(head + struct.pack(">ihsi", 1, 1, b"t", count) + partition * count + struct.pack(">i", 0))
        answered = APIS[1].handler(backend, KafkaContext(7, 1, "me", Reader(memoryview(sent)), CALLER))
        sent[:] = bytes(len(sent))  # a frame's bytes are another frame's in the next turn
        assert asyncio.iscoroutine(answered)
        answers.append(await answered)
    assert read_in == [True, False]
    assert answers[0] == answers[1] == [struct.pack(">ihii", 0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0)]


def test_the_page_is_fresh() -> None:
    check = [sys.executable, "-W", "ignore", str(ROOT / "tools/kafka_apis.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_varints_of_the_codec_end() -> None:
    from ottla_core.kafka.messages import MetadataRequest
    from ottla_core.kafka_formats.primitives import Reader

    with pytest.raises(MalformedError):
        codec.decode(MetadataRequest, 12, Reader(memoryview(b"\xff" * 1_000_000), flexible=True))
