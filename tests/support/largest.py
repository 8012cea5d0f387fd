"""The largest legal requests of an API, or of a private method: each of its arrays in turn has as many elements as are
legal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.apis import PRIVATE
from ottla_broker.kafka.private_methods import PrivateMethod
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.private_messages import OttlaCallRequest
from ottla_core.kafka.schema import Field, Struct, schema_of

TOPIC: Final = "t"
"""A topic that exists, with one partition. A request that names one topic names this one."""
FRAME_BYTES: Final = 16 << 20
_HEADER_BYTES: Final = 1_000
_OTHERS: Final = 50
"""More than the elements of all other arrays of one request."""
_VALUES: Final = {
    "timeout_ms": 1_000,
    "session_timeout_ms": 6_000,
    "rebalance_timeout_ms": 6_000,
    "replica_id": -1,
    "member_epoch": 7,
    "resource_type": 2,
    "resource_pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "validate_only": True,
    "acks": -1,
}
"""Values without which requests would be refused before their elements are looked at, or would create resources."""
_CALL_MS: Final = 30_000
_ELEMENT_BYTES: Final = 8
"""More than a number or a short name takes."""
_HEAD_BYTES: Final = 4
_NAMES: Final = {"topicName": TOPIC, "groupId": "g", "transactionalId": "x"}


class Row(NamedTuple):
    """An API, and the path to the array that has all the elements. The path is empty if the API has no array."""

    api: Api
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.api.name, *self.path))

    def body(self, most: int) -> bytes:
        """Return a request that has at most `most` elements, and fits into a frame."""
        count = min(most, self.api.most_elements) - _OTHERS
        while True:
            body = codec.encode(_message(self, count), self.api.max_version)
            if len(body) <= FRAME_BYTES - _HEADER_BYTES:
                return body
            count = int(count * 0.9 * FRAME_BYTES / len(body))


class PrivateRow(NamedTuple):
    """A private method, and the repeated field that has all the elements, or an empty name."""

    called: PrivateMethod
    field: str
    api: Api = PRIVATE

    def __str__(self) -> str:
        return ".".join(filter(None, (self.called.method.service, self.called.method.name, self.field)))

    def body(self, most: int) -> bytes:
        """Return a request that has at most `most` elements, and at most as many bytes as the method takes."""
        request = self.called.method.request()
        _fill(request, 0)
        if self.field:
            _repeat(request, self.field, most, self.called.max_bytes)
        elif "records" in request.DESCRIPTOR.fields_by_name:
            request.records = bytes(self.called.max_bytes - _HEADER_BYTES)
        call = OttlaCallRequest(method=self.called.method.path, timeout_ms=_CALL_MS, body=request.SerializeToString())
        return codec.encode(call, PRIVATE.max_version)


def rows(api: Api) -> list[Row]:
    """Return a row for each array of the API's last version, and one for an API that has none."""
    paths = list(_paths(schema_of(api.request.__name__).struct, api.max_version, ()))
    return [Row(api, path) for path in paths or [()]]


def private_rows(called: PrivateMethod) -> list[PrivateRow]:
    repeated = [f.name for f in called.method.request.DESCRIPTOR.fields if f.is_repeated]
    return [PrivateRow(called, name) for name in repeated or [""]]


def _repeat(request: Any, name: str, most: int, max_bytes: int) -> None:
    field = request.DESCRIPTOR.fields_by_name[name]
    elements, left_bytes = getattr(request, name), max_bytes - _HEADER_BYTES
    for n in range(most):
        if field.message_type is None:
            elements.append(f"n{n}" if field.type == field.TYPE_STRING else n)
            left_bytes -= _ELEMENT_BYTES
        else:
            _fill(elements.add(), n)
            left_bytes -= elements[-1].ByteSize() + _HEAD_BYTES
        if left_bytes <= 0:
            return


def _fill(message: Any, number: int) -> None:
    """Give the fields of a message values that are not refused at once, if they are neither repeated nor messages."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_repeated and field.message_type is None:
            if field.type == field.TYPE_STRING:
                setattr(message, field.name, {"group": "g", "transactional_id": "x"}.get(field.name, f"n{number}"))
            elif field.type == field.TYPE_BOOL:
                setattr(message, field.name, True)
            elif field.type in (field.TYPE_INT32, field.TYPE_UINT32, field.TYPE_INT64, field.TYPE_UINT64):
                setattr(message, field.name, number)


def _paths(of: Struct, version: int, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in of.fields:
        if version in field.versions:
            path = (*above, field.name)
            if field.is_array:
                yield path
            if field.struct is not None:
                yield from _paths(field.struct, version, path)


def _message(row: Row, count: int) -> Message:
    kind = row.api.request
    message: Message = _struct(schema_of(kind.__name__).struct, kind, kind, row, row.path, count, None)
    return message


def _struct(of: Struct, kind: Any, message: type[Message], row: Row, path: Any, count: int, number: int | None) -> Any:
    """Return a structure. `path` leads on to the large array from here, and is None beside it. `number` is that of an
    element of that array."""
    fields = {}
    for field in of.fields:
        if row.api.max_version in field.versions:
            onwards = path[1:] if path and path[0] == field.name else None
            fields[field.name] = _value(field, message, row, onwards, count, number)
    return kind(**fields)


def _value(field: Field, message: type[Message], row: Row, path: Any, count: int, number: int | None) -> Any:
    def one(onwards: Any, n: int | None) -> Any:
        if field.struct is not None:
            return _struct(field.struct, getattr(message, field.struct.name), message, row, onwards, count, n)
        return _primitive(field, n)

    if not field.is_array:
        is_absent = field.struct is not None and path is None and row.api.max_version in field.nullable
        return None if is_absent else one(path, number)
    if path is None:
        return [] if number is not None else [one(None, None)]
    return [one(None, n) for n in range(count)] if path == () else [one(path, None)]


def _primitive(field: Field, number: int | None) -> Any:
    if field.name in _VALUES:
        return _VALUES[field.name]
    if field.kind == "string":
        return _NAMES.get(field.entity, "n") if number is None else f"n{number}"
    if field.kind == "uuid":
        return (number or 0).to_bytes(16, "big")
    if field.kind.startswith(("int", "uint")):
        return number if number is not None and field.kind in ("int32", "int64") else 0
    return field.default
