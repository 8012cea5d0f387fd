"""All that a message relies on, one line for each thing: a field, an enum's value, a method, a version of an API.

If a line is gone or differs, processes of another release can't live with the change. A new line does no harm. etcd's
messages are left out, because etcd defines them.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator
from importlib import import_module

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

import ottla_proto
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.private_methods import PRIVATE_METHODS
from ottla_core.kafka import schema


def message_lines() -> list[str]:
    """Return the lines of today's messages, in order."""
    return sorted([*_of_protos(), *_of_kafka(), *_of_private_kafka()])


def _of_protos() -> Iterator[str]:
    for module in pkgutil.iter_modules(ottla_proto.__path__):
        if module.name.endswith("_pb2"):
            file = FileDescriptorProto()
            import_module(f"ottla_proto.{module.name}").DESCRIPTOR.CopyToProto(file)
            if file.package.startswith("ottla."):
                yield from lines_of(file)


def lines_of(file: FileDescriptorProto) -> Iterator[str]:
    for message in file.message_type:
        yield from _of_message(f"{file.package}.{message.name}", message)
    for enum in file.enum_type:
        yield from _of_enum(f"{file.package}.{enum.name}", enum)
    for service in file.service:
        for method in service.method:
            sent = "stream " * method.client_streaming + method.input_type.lstrip(".")
            returned = "stream " * method.server_streaming + method.output_type.lstrip(".")
            yield f"rpc {file.package}.{service.name}.{method.name}: {sent} -> {returned}"


def _of_message(name: str, message: DescriptorProto) -> Iterator[str]:
    yield f"message {name}"
    for field in message.field:
        kind = field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type)[5:].lower()
        if field.proto3_optional:
            label = "optional"
        elif field.HasField("oneof_index"):
            label = f"one of {message.oneof_decl[field.oneof_index].name}:"
        else:
            label = "repeated" if field.label == FieldDescriptorProto.LABEL_REPEATED else "single"
        yield f"field {name}.{field.name} = {field.number}: {label} {kind}"
    for nested in message.nested_type:
        yield from _of_message(f"{name}.{nested.name}", nested)
    for enum in message.enum_type:
        yield from _of_enum(f"{name}.{enum.name}", enum)


def _of_enum(name: str, enum: EnumDescriptorProto) -> Iterator[str]:
    for value in enum.value:
        yield f"enum {name}.{value.name} = {value.number}"


def _of_kafka() -> Iterator[str]:
    for api in APIS.values():
        for version in range(api.versions[0], api.versions[1] + 1):
            yield f"kafka {api.name} version {version}"


def _of_private_kafka() -> Iterator[str]:
    for name in schema.message_names(schema.PRIVATE):
        message = schema.schema_of(name)
        for version in message.versions:
            flexible = "flexible" if version in message.flexible else "plain"
            layout = _layout(message.struct, version)
            yield f"private kafka {message.api_key} {name} version {version} {flexible}: {layout}"
    private = json.loads(pkgutil.get_data(schema.__package__, schema.PRIVATE_FIELDS) or b"")
    for name, structs in private["messages"].items():
        for struct, fields in structs.items():
            for field in fields:
                yield f"private kafka {name} {struct} {json.dumps(field, sort_keys=True)}"
    for name, private_method in PRIVATE_METHODS.items():
        request, response = private_method.method.request, private_method.method.response
        yield f"private method {name}: {request.DESCRIPTOR.full_name} -> {response.DESCRIPTOR.full_name}"


def _layout(struct: schema.Struct, version: int) -> str:
    """Return the fields of a version in their order, which is that of the bytes."""
    fields = []
    for field in struct.fields:
        if version in field.versions:
            kind = f"{{{_layout(field.struct, version)}}}" if field.struct else field.kind
            tag = f" tag {field.tag}" if version in field.tagged else ""
            fields.append(f"{'[]' * field.is_array}{kind}{'?' * (version in field.nullable)} {field.name}{tag}")
    return ", ".join(fields)
