"""Plausible requests for the methods of the contracts, made from their descriptors."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor as Kinds
from google.protobuf.message import Message
from tests.fuzz import batches
from tests.fuzz_client.vocabulary import NODE, TOPIC, TOPIC_ID

from ottla_proto import contracts
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Method

_SAYS_MORE_SHARE: Final = 0.3
_DEEPEST: Final = 4
_VALUES: Final[dict[str, Any]] = {
    "topic_id": TOPIC_ID,
    "topic_ids": TOPIC_ID,
    "topic": TOPIC,
    "topics": TOPIC,
    "name": TOPIC,
    "partition": 0,
    "partitions": 0,
    "num_partitions": 1,
    "replication_factor": 1,
    "acks": -1,
    "max_wait_ms": 0,
    "max_bytes": 1 << 20,
    "broker_id": NODE,
    "timestamp_ms": -1,
    "all_topics": False,
    "follower": None,
    "transactional_id": "",
}
_NEEDS_NEWER: Final = frozenset({"longer_than_ms", "pattern", "types"})
"""A request with one of these fields has no older version."""
_INTEGERS: Final = frozenset(
    {
        Kinds.CPPTYPE_INT32,
        Kinds.CPPTYPE_INT64,
        Kinds.CPPTYPE_UINT32,
        Kinds.CPPTYPE_UINT64,
        Kinds.CPPTYPE_ENUM,
    }
)


@cache
def methods() -> dict[str, Method[Any, Any]]:
    """Return every method of the contracts, and every call that only clients make, by its path."""
    services = [each for each in vars(contracts).values() if hasattr(each, "SERVICE")]
    found = [each for service in (*services, Client) for each in vars(service).values() if isinstance(each, Method)]
    return {method.path: method for method in found}


def plausible(method: Method[Any, Any], chance: random.Random) -> Any:
    """Return a request. Many of its optional fields are there only sometimes."""
    request = method.request()
    _fill(request, chance, 0)
    return request


def _fill(message: Message, chance: random.Random, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        is_choice = field.containing_oneof is not None or field.name in _NEEDS_NEWER
        if is_choice and chance.random() > _SAYS_MORE_SHARE:
            continue
        value = _VALUES.get(field.name, _value(field, chance))
        if field.message_type is not None:
            if value is not None and depth < _DEEPEST:
                _fill_message(message, field, chance, depth)
        elif value is None:
            continue
        elif field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _fill_message(message: Message, field: Any, chance: random.Random, depth: int) -> None:
    inner = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        return
    if field.is_repeated:
        _fill(inner.add(), chance, depth + 1)
    elif chance.random() < _SAYS_MORE_SHARE:
        inner.SetInParent()
        _fill(inner, chance, depth + 1)


def _value(field: Any, chance: random.Random) -> Any:
    if field.message_type is not None:
        return ()
    if field.cpp_type in _INTEGERS:
        return chance.choice((0, 0, 1))
    match field.cpp_type:
        case Kinds.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case Kinds.CPPTYPE_STRING:
            return batches.batch() if field.type == Kinds.TYPE_BYTES else "x"
    return 0.0
