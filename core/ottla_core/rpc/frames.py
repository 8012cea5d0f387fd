"""The frames of a streaming method: {correlation_id, timeout_ms, body} out, {correlation_id, body} back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from ottla_proto import contracts
from ottla_proto.contracts import Method


@dataclass(frozen=True, slots=True)
class FrameTypes:
    """The generated classes of one stream's frames. Their constructors take the fields by name."""

    request: Any
    response: Any


@cache
def frame_types(method: Method[Any, Any]) -> FrameTypes:
    descriptor = descriptor_of(method)
    return FrameTypes(GetMessageClass(descriptor.input_type), GetMessageClass(descriptor.output_type))


def descriptor_of(method: Method[Any, Any]) -> MethodDescriptor:
    service = getattr(contracts, method.service).SERVICE
    return service.methods_by_name[method.name]  # type: ignore[no-any-return]  # protobuf's maps have no types


def is_stream(method: Method[Any, Any]) -> bool:
    return bool(descriptor_of(method).client_streaming)


def snake_case(name: str) -> str:
    """Return a method's name in Python: `ListOffsets` → `list_offsets`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
