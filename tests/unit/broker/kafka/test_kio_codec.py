"""Control messages against kio, in every version that is served: it writes and we read, we write and it reads."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka_messages import type_of
from kio_messages import invent, read, write
from tests.fuzz.kio_schemas import request_schema, response_schema

from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.wire import codec
from ottla_core.kafka.codec import decode, encode
from ottla_core.kafka_formats.primitives import MalformedError, Reader

PRODUCE, FETCH = 0, 1
CONTROL = [
    pytest.param(api.key, version, id=f"{api.name}-{version}")
    for api in APIS.values()
    if api.key not in (PRODUCE, FETCH)
    for version in range(api.min_version, api.max_version + 1)
]
EXAMPLES = 4


@pytest.mark.rule(71)
@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_what_kio_asks_is_read(key: int, version: int) -> None:
    """Read by us, and written again: the bytes are kio's."""
    schema, request_type = request_schema(key, version), type_of(f"{APIS[key].name}Request")
    for seed in range(EXAMPLES):
        sent = write(invent(schema, random.Random(seed)))
        body = Reader(memoryview(sent), flexible=version in APIS[key].flexible)
        request = codec.decode(request_type, version, body)
        assert body.at == len(sent)
        assert encode(request, version) == sent


@pytest.mark.rule(71)
@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_what_we_answer_is_read_by_kio(key: int, version: int) -> None:
    """What counts is that the message which we read from kio's bytes is the same for kio again.

    Its error codes are invented, so they are not checked against the table of the codes that the API has.
    """
    as_it_is: Any = SimpleNamespace(sent=lambda api, version, code: code)
    schema, response_type = response_schema(key, version), type_of(f"{APIS[key].name}Response")
    for seed in range(EXAMPLES):
        meant = invent(schema, random.Random(seed))
        ours = decode(response_type, write(meant), version)
        assert read(schema, b"".join(codec.encode(ours, version, as_it_is))) == meant


@pytest.mark.parametrize(("key", "version"), CONTROL)
def test_what_is_cut_off_is_refused(key: int, version: int) -> None:
    """At any byte, whatever it was in the middle of."""
    request_type, flexible = type_of(f"{APIS[key].name}Request"), version in APIS[key].flexible
    sent = write(invent(request_schema(key, version), random.Random(3)))
    for end in range(0, len(sent), 1 + len(sent) // 30):
        with pytest.raises(MalformedError):
            codec.decode(request_type, version, Reader(memoryview(sent)[:end], flexible=flexible))
