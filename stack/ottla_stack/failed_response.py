"""The response to a request of Kafka's protocol, if everything that the request names has failed with one error.

Each API has its errors in other places, which the definitions of its messages show. So one function serves all APIs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla_core.errors import OttlaError
from ottla_core.kafka import codec, messages
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import Field, Struct, schema_of

_CODES: Final = ("error_code", "partition_error_code")
_TEXT: Final = "error_message"
_KEYS: Final = ("string", "uuid", "int8", "int32")
"""A topic, a partition or a resource is named by its first field of each of these kinds."""


def failed_response(api: str, version: int, body: bytes, error: OttlaError) -> bytes | None:
    """Return the body of the response to the request in `body`, or None if the response has no place for an error.

    The error is at each partition, or at whatever else the request names, or else at the response. Records with acks=0
    have no response, and some older versions have only errors of things that are named.
    """
    request = codec.decode(getattr(messages, f"{api}Request"), body, version)
    if isinstance(request, messages.ProduceRequest) and request.acks == 0:
        return None
    response_type = getattr(messages, f"{api}Response")
    failure = _Failure(response_type, version, error)
    asked = _Asked(request, schema_of(f"{api}Request").struct, "struct")
    response = failure.part(response_type, schema_of(f"{api}Response").struct, asked)
    return codec.encode(response, version) if failure.is_expressed else None


class _Asked(NamedTuple):
    """A part of the request; one that is not a structure is named by its value."""

    value: Any
    struct: Struct | None
    kind: str

    def named(self, version: int) -> list[_Asked]:
        """Return the parts that this one consists of: those of its first array that is not empty."""
        for field in self.struct.fields if self.struct else ():
            if field.is_array and version in field.versions and (elements := getattr(self.value, field.name)):
                return [_Asked(element, field.struct, field.kind) for element in elements]
        return []

    def key(self, kind: str, version: int) -> Any:
        """Return what names this part, as a value of this kind, or None."""
        if self.struct is None:
            return self.value if kind == self.kind else None
        name = _key_of(self.struct, kind, version)
        return getattr(self.value, name) if name else None


class _Failure:
    """An error, and how it is expressed in one version of a response."""

    def __init__(self, response_type: type[Message], version: int, error: OttlaError) -> None:
        self._response_type: Final = response_type
        self._version: Final = version
        self._error: Final = error
        self.is_expressed = False
        """Whether a part of the response has the error."""

    def part(self, part_type: type[Message], struct: Struct, asked: _Asked) -> Message:
        """Return the part of the response about what was asked."""
        part = part_type()
        failing = next((field for field in struct.fields if field.is_array and self._has_code(field)), None)
        named = asked.named(self._version)
        if named and failing is not None:
            setattr(part, failing.name, [self._element(failing, each) for each in named])
            return part
        for field in struct.fields:
            if self._version not in field.versions:
                continue
            if field.name in _CODES:
                setattr(part, field.name, int(self._error.code))
                self.is_expressed = True
            elif field.name == _TEXT:
                setattr(part, field.name, self._error.message)
        return part

    def _element(self, of: Field, asked: _Asked) -> Message:
        assert of.struct is not None, "an array of structures"
        element = self.part(getattr(self._response_type, of.struct.name), of.struct, asked)
        for kind in _KEYS:
            name, value = _key_of(of.struct, kind, self._version), asked.key(kind, self._version)
            if name and value is not None:
                setattr(element, name, value)
        return element

    def _has_code(self, field: Field) -> bool:
        if self._version not in field.versions:
            return False
        inside = field.struct.fields if field.struct else ()
        return any(each.name in _CODES or self._has_code(each) for each in inside)


def _key_of(struct: Struct, kind: str, version: int) -> str:
    """Return the name of the first field of this kind, "" if there is none."""
    fields = (f.name for f in struct.fields if f.kind == kind and not f.is_array and version in f.versions)
    return next((name for name in fields if name != _TEXT), "")
