"""Control messages against kio, in every version that is served: it writes and we read, we write and it reads."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kio.index import load_request_schema, load_response_schema
from kio_messages import invent, read, write

from ottla_broker.kafka import codec
from ottla_broker.kafka.apis import APIS
from ottla_core.kafka_formats.primitives import MalformedError, Reader

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18
CONTROL = [
    pytest.param(api.key, version, id=f"{api.name}-{version}")
    for api in APIS.values()
    if api.key not in (PRODUCE, FETCH)
    for version in range(api.min_version, api.max_version + 1)
]
EXAMPLES = 4


class _Header:
    def __init__(self, key: int, version: int) -> None:
        self.request_api_key, self.request_api_version = key, version


def request_type_of(key: int) -> Any:
    if key == API_VERSIONS:
        from kafka.protocol.metadata import ApiVersionsRequest

        return ApiVersionsRequest
    decode = inspect.getclosurevars(APIS[key].handler).nonlocals["decode"]
    return inspect.getclosurevars(decode).nonlocals["request_type"]


@pytest.mark.rule(71)
@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_what_kio_asks_is_read(key: int, version: int) -> None:
    """Read by us, and written again by kafka-python: the bytes are kio's."""
    schema, request_type = load_request_schema(key, version), request_type_of(key)
    flexible = version >= APIS[key].flexible_from
    for seed in range(EXAMPLES):
        sent = write(invent(schema, random.Random(seed)))
        body = Reader(memoryview(sent), flexible=flexible)
        request = codec.decode(request_type, version, body)
        assert body.at == len(sent)
        assert request_type._struct.encode(request, version=version, compact=flexible, tagged=flexible) == sent


@pytest.mark.rule(71)
@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_what_we_answer_is_read_by_kio(key: int, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is what kafka-python makes of kio's; what counts is that ours is the same for kio again.

    Its error codes are invented, so they are not checked against the table of the codes that the API has.
    """
    monkeypatch.setattr(codec, "sent_code", lambda key, version, code: code)
    schema = load_response_schema(key, version)
    response_type = ResponseClassRegistry.get_response_class(_Header(key, version))[None]
    flexible = response_type.flexible_version_q(version)
    decode = response_type._struct.compiled_decode_from(
        version, compact=flexible, tagged=flexible, data_class=response_type
    )
    for seed in range(EXAMPLES):
        meant = invent(schema, random.Random(seed))
        ours, _ = decode(memoryview(write(meant)), 0)
        assert read(schema, b"".join(codec.encode(ours))) == meant


@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_what_is_cut_off_is_refused(key: int, version: int) -> None:
    """At any byte, whatever it was in the middle of."""
    request_type, flexible = request_type_of(key), version >= APIS[key].flexible_from
    sent = write(invent(load_request_schema(key, version), random.Random(3)))
    for end in range(0, len(sent), 1 + len(sent) // 30):
        with pytest.raises(MalformedError):
            codec.decode(request_type, version, Reader(memoryview(sent)[:end], flexible=flexible))
