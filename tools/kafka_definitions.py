"""Write Kafka's message definitions and the classes of its messages into `core/ottla_core/kafka`.

`python tools/kafka_definitions.py kafka-clients-4.4.0.jar ListGroups` reads the definitions of all known APIs, and of
the named ones, from Kafka's client library. It writes them without comments, one message on each line. Then it writes
`messages.py`. Without a jar, it writes only `messages.py`, from the definitions that are there.

The messages of ottla's own API are written by hand in `private_definitions.json`; their classes are in
`private_messages.py`, which is always written. The private fields of Kafka's messages are written by hand in
`private_fields.json`; `messages.py` has them, too.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ottla_core.kafka.schema import KAFKAS, PRIVATE, Field, Schema, Struct, extended_schema_of, message_names

PACKAGE: Final = Path(__file__).resolve().parent.parent / "core/ottla_core/kafka"
DEFINITIONS: Final = PACKAGE / KAFKAS
MESSAGES: Final = {KAFKAS: PACKAGE / "messages.py", PRIVATE: PACKAGE / "private_messages.py"}
"""The files of the classes, by the files of their definitions."""
ORIGIN: Final = (
    "Apache Kafka 4.4.0, Apache License 2.0: common/message of kafka-clients-4.4.0.jar, without its comments"
)
_DROPPED: Final = frozenset({"about", "listeners", "mapKey", "zeroCopy"})
_LINE_CHARACTERS: Final = 110
_INNER: Final = " " * 8
_HEADERS: Final = ("RequestHeader", "ResponseHeader")
_TYPES: Final = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes | memoryview",
    "uuid": "bytes",
}

HEADS: Final = {
    KAFKAS: '''\
"""The classes of Kafka's messages. `tools/kafka_definitions.py` writes this file from `definitions.json` and
`private_fields.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ottla_core.kafka.message import Message
''',
    PRIVATE: '''\
"""The classes of the messages that are ottla's own. `tools/kafka_definitions.py` writes this file from
`private_definitions.json`."""

from __future__ import annotations

from typing import ClassVar

from ottla_core.kafka.message import Message
''',
}


def definitions(jar: Path, added: Iterable[str]) -> str:
    """Return the definitions file: JSON, with the definition of one message on each line."""
    known = [name for name in message_names() if name not in _HEADERS]
    files = sorted({*known, *(f"{api}{kind}" for api in added for kind in ("Request", "Response"))})
    with zipfile.ZipFile(jar) as archive:
        found = {name: archive.read(f"common/message/{name}.json") for name in [*files, *_HEADERS]}
    lines = [f'"{name}": {json.dumps(_stripped(_parsed(text)), separators=(",", ":"))}' for name, text in found.items()]
    return f'{{"origin": {json.dumps(ORIGIN)}, "messages": {{\n' + ",\n".join(lines) + "\n}}\n"


def _parsed(text: bytes) -> Any:
    return json.loads(re.sub(r"^\s*//.*$", "", text.decode(), flags=re.MULTILINE))


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(inner) for key, inner in value.items() if key not in _DROPPED}
    return [_stripped(inner) for inner in value] if isinstance(value, list) else value


def messages(file: str) -> str:
    """Return the source of the classes of all messages in a file of definitions."""
    lines = [HEADS[file]]
    for name in message_names(file):
        lines += ["", *_class_of(extended_schema_of(name)), ""]
    return "\n".join(lines)


def _class_of(schema: Schema) -> Iterator[str]:
    """A message has the classes of all its structures within it, whatever structure they are in."""
    inner = {of.name: of for of in _inner(schema.struct)}
    yield from _struct(schema.struct, schema.struct.name, schema.api_key)
    for of in inner.values():
        yield ""
        yield from ("    " + line if line else "" for line in _struct(of, schema.struct.name))


def _inner(of: Struct) -> Iterator[Struct]:
    for field in of.fields:
        if field.struct is not None:
            yield field.struct
            yield from _inner(field.struct)


def _struct(of: Struct, message: str, api_key: int | None = None) -> Iterator[str]:
    yield f"class {of.name}(Message):"
    if api_key is not None and api_key >= 0:
        yield f"    API_KEY: ClassVar = {api_key}"
    yield from _wrapped("    __slots__ = (", [f'"{f.name}",' for f in of.fields], ")")
    yield ""
    parameters = [f"{_parameter(f, message)}," for f in of.fields]
    yield from _wrapped("    def __init__(", ["self,", "*,", *parameters], ") -> None:")
    yield from (f"        self.{f.name} = {f.name}" for f in of.fields)


def _parameter(field: Field, message: str) -> str:
    kind = f"{message}.{field.struct.name}" if field.struct is not None else _TYPES.get(field.kind, "int")
    kind = f"Sequence[{kind}]" if field.is_array else kind
    if len(field.nullable) or field.default is None:
        kind += " | None"
    return f"{field.name}: {kind} = {field.default!r}"


def _wrapped(head: str, parts: list[str], tail: str) -> Iterator[str]:
    """Put the parts between head and tail: in one line, or in several between them."""
    whole = f"{head}{' '.join(parts)}{tail}"
    if len(whole) <= _LINE_CHARACTERS:
        yield whole
        return
    yield head
    line = _INNER
    for part in parts:
        if len(line) + len(part) >= _LINE_CHARACTERS:
            yield line
            line = _INNER
        line += part if line == _INNER else f" {part}"
    yield line
    yield f"    {tail}"


def main() -> int:
    if len(sys.argv) > 1:
        DEFINITIONS.write_text(definitions(Path(sys.argv[1]), sys.argv[2:]))
    for file, path in MESSAGES.items():
        path.write_text(messages(file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
