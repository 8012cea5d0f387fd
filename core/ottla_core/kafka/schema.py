"""A schema says which fields a Kafka message has. It is read from Kafka's definition files.

`definitions.json` has the definition of one message on each line. A program uses a few dozen of them, so the file is
not parsed as a whole: `schema_of` looks for the line of one message, and parses that. `private_definitions.json` has
the messages of the one API that is ottla's own, in the same form.

`private_fields.json` adds fields to responses of Kafka's, for what only ottla has to say (docs/adr/0028). They are
tagged fields of the message's flexible versions, and have tags from 28532 on. Readers ignore a tag that they do not
know; because not all of them do, brokers send these fields only to clients of ottla.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

KAFKAS: Final = "definitions.json"
PRIVATE: Final = "private_definitions.json"
PRIVATE_FIELDS: Final = "private_fields.json"

_NO_VERSION: Final = range(0)
_LAST_VERSION: Final = 2**15 - 1
_TEXTS: Final = frozenset({"string", "bytes", "records"})
_WORD_START: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Field(NamedTuple):
    """This describes one field of a structure.

    `kind` is a primitive type of Kafka or "struct". An array has the kind of its elements. `tagged` are the versions in
    which the field is a tagged one. If it is `ignorable`, versions that lack it leave its value out. `compact` is false
    for the one string that has its plain spelling in every version: a request's client id. `entity` says what the value
    names, for example "topicName", and is empty if Kafka does not say it.
    """

    name: str
    kind: str
    is_array: bool
    struct: Struct | None
    versions: range
    nullable: range
    tagged: range
    tag: int
    default: bool | int | float | str | bytes | tuple[()] | None
    ignorable: bool
    compact: bool
    entity: str


class Struct(NamedTuple):
    """A structure is a message as a whole, or a part of it that has fields of its own."""

    name: str
    fields: tuple[Field, ...]


class Schema(NamedTuple):
    """This describes all versions of a message. `api_key` is -1 for headers."""

    api_key: int
    kind: str
    versions: range
    flexible: range
    struct: Struct


@cache
def schema_of(name: str) -> Schema:
    """Return the schema of the message with this name, for example "FetchRequest", without private fields."""
    return parsed(_definition_of(name))


@cache
def extended_schema_of(name: str) -> Schema:
    """Return the schema of the message with this name, with the private fields that it has."""
    private = _line_of(name, PRIVATE_FIELDS)
    return schema_of(name) if private is None else parsed(_extended(_definition_of(name), private))


def _definition_of(name: str) -> Any:
    definition = _line_of(name, KAFKAS) or _line_of(name, PRIVATE)
    if definition is None:
        raise ValueError(f"there is no message {name}")
    return definition


def _line_of(name: str, file: str) -> Any | None:
    """Return what a file has on its line for this message, None if it has no such line."""
    lines = pkgutil.get_data(__package__, file) or b""
    start = lines.find(b'\n"%b": ' % name.encode())
    if start < 0:
        return None
    start += len(name) + 5
    return json.loads(lines[start : lines.index(b"\n", start)].rstrip(b","))


def _extended(definition: Mapping[str, Any], private: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the definition of a message in which structures have further fields, by their names."""
    versions = definition["flexibleVersions"]
    added = {
        name: [{"versions": versions, "taggedVersions": versions, "ignorable": True, **field} for field in fields]
        for name, fields in private.items()
    }

    def extended(of: Mapping[str, Any], name: str) -> dict[str, Any]:
        fields = [extended(field, field["type"].removeprefix("[]")) for field in of.get("fields", ())]
        return {**of, "fields": [*fields, *added.get(name, ())]}

    common = [extended(each, each["name"]) for each in definition.get("commonStructs", ())]
    return {**extended(definition, definition["name"]), "commonStructs": common}


def message_names(file: str = KAFKAS) -> list[str]:
    """Return the names of all messages of Kafka, or of those in another file."""
    return list(json.loads(pkgutil.get_data(__package__, file) or b"{}")["messages"])


def parsed(definition: Mapping[str, Any]) -> Schema:
    """Return the schema that one of Kafka's definition files describes."""
    common = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    return Schema(
        definition.get("apiKey", -1),
        definition["type"],
        _versions(definition["validVersions"]),
        _versions(definition["flexibleVersions"]),
        Struct(definition["name"], _fields(definition["fields"], common)),
    )


def _fields(definitions: Iterable[Mapping[str, Any]], common: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(_field(definition, common) for definition in definitions)


def _field(definition: Mapping[str, Any], common: Mapping[str, Any]) -> Field:
    kind: str = definition["type"]
    is_array, kind = kind.startswith("[]"), kind.removeprefix("[]")
    struct = None
    if kind[0].isupper():
        struct, kind = Struct(kind, _fields(definition.get("fields") or common[kind], common)), "struct"
    tagged = _versions(definition.get("taggedVersions", "none"))
    return Field(
        _WORD_START.sub("_", definition["name"]).lower(),
        kind,
        is_array,
        struct,
        _versions(definition["versions"]),
        _versions(definition.get("nullableVersions", "none")),
        tagged,
        definition.get("tag", -1),
        () if is_array and definition.get("default") != "null" else _default(kind, definition.get("default")),
        definition.get("ignorable", False),
        definition.get("flexibleVersions") != "none",
        definition.get("entityType", ""),
    )


def _default(kind: str, text: object) -> bool | int | float | str | bytes | None:
    """Return the value that a field has if nothing else is said. A structure is absent then."""
    if text == "null" or kind == "struct":
        return None
    if kind == "string":
        return str(text or "")
    if kind in _TEXTS or kind == "uuid":
        return bytes(16) if kind == "uuid" else b""
    if kind == "bool":
        return str(text).lower() == "true"
    return float(str(text or 0)) if kind == "float64" else int(str(text or 0), 0)


def _versions(text: str) -> range:
    """Return the versions that "3", "3+", "3-7" or "none" stand for."""
    if text == "none":
        return _NO_VERSION
    first, dash, last = text.partition("-")
    if first.endswith("+"):
        return range(int(first[:-1]), _LAST_VERSION + 1)
    return range(int(first), int(last if dash else first) + 1)
