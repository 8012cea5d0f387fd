"""The contracts, the code generated from them and the table of methods say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, ServiceDescriptor

from ottla_core.rpc.call_frames import carried_methods
from ottla_core.rpc.frames import descriptor_of, is_stream
from ottla_proto import contracts
from ottla_proto.common_pb2 import Frames, ResponseFrames
from ottla_proto.contracts import GatheredCalls, Method

ROOT = Path(__file__).parents[2]
CONTRACTS = [c for c in vars(contracts).values() if isinstance(getattr(c, "SERVICE", None), ServiceDescriptor)]
GATHERED = [g for c in CONTRACTS for g in vars(c).values() if isinstance(g, GatheredCalls)]
METHODS = [m for c in CONTRACTS for m in vars(c).values() if isinstance(m, Method)]


def test_generated_code_is_fresh() -> None:
    check = [sys.executable, str(ROOT / "tools/generate_proto.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_every_rpc_of_a_contract_has_its_method() -> None:
    for contract in CONTRACTS:
        described = {m.name for m in contract.SERVICE.methods}
        assert described == {m.name for m in vars(contract).values() if isinstance(m, Method | GatheredCalls)}
    assert len(METHODS) >= 13


def type_of(message: Descriptor, field: str) -> Descriptor:
    """Return the message type of a field."""
    described = message.fields_by_name[field].message_type
    assert described is not None
    return described


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.service}.{m.name}")
def test_a_method_has_the_types_of_its_descriptor(method: Method[Any, Any]) -> None:
    described = descriptor_of(method)
    sent, answered = described.input_type, described.output_type
    if is_stream(method):
        assert described.server_streaming
        assert [f.name for f in sent.fields] == ["correlation_id", "timeout_ms", "body"]
        assert [f.name for f in answered.fields] == ["correlation_id", "body"]
        sent, answered = type_of(sent, "body"), type_of(answered, "body")
    assert (sent, answered) == (method.request.DESCRIPTOR, method.response.DESCRIPTOR)
    assert type_of(answered, "error").full_name == "ottla.v1.Error"


@pytest.mark.parametrize("gathered", GATHERED, ids=lambda g: f"{g.service}.{g.name}")
def test_gathered_calls_have_the_wire_format_of_their_frames(gathered: GatheredCalls) -> None:
    """`Frames` and `ResponseFrames` take the messages apart, so their fields have the same numbers."""
    described = getattr(contracts, gathered.service).SERVICE.methods_by_name[gathered.name]
    assert described.client_streaming
    assert described.server_streaming
    sides = [
        (described.input_type, gathered.call, Frames.DESCRIPTOR),
        (described.output_type, gathered.response, ResponseFrames.DESCRIPTOR),
    ]
    for declared, frame, joined in sides:
        fields = {field.number: field for field in declared.fields}
        assert fields.keys() == {field.number for field in joined.fields}
        assert fields.pop(1).message_type == frame.DESCRIPTOR
        for field in joined.fields[1:]:
            assert (field.name, field.type) == (fields[field.number].name, fields[field.number].type)
        assert frame.DESCRIPTOR.fields_by_name["correlation_id"].number == 1
    assert carried_methods(gathered)
