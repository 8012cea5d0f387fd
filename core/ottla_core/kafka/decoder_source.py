"""Writes the function that reads one version of one message.

A structure's fields are read into their attributes one after the other, without a loop over fields and without a call
for each. This is DeleteGroupsRequest in version 2, whose names follow a count and whose lengths are compact:

    def decode(data, at):
        size = len(data)
        left = 100000
        m1 = new(DeleteGroupsRequest)
        n2 = data[at]
        at += 1
        if n2 >= 128:
            n2, at = long_varint(data, at, n2)
        n2 -= 1
        if n2 >= 0:
            left -= n2
            if n2 * 1 > size - at or left < 0:
                raise too_many('groups_names', n2, size - at)
            m1.groups_names = list3 = []
            for _ in range(n2):
                n6 = data[at]
                at += 1
                if n6 >= 128:
                    n6, at = long_varint(data, at, n6)
                    if n6 > MAX_STRING_BYTES + 1:
                        raise too_long('groups_names')
                n6 -= 1
                if n6 >= 0:
                    end5 = at + n6
                    v4 = data[at:end5].decode()
                    at = end5
                else:
                    raise is_null('groups_names')
                list3.append(v4)
        else:
            raise is_null('groups_names')
        tags7 = data[at]
        at += 1
        if tags7:
            _, at = tagged_fields(data, at, tags7)
        if at > size:
            raise ends_early()
        return m1, at
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Final

from ottla_core.kafka.runtime import MAX_ARRAY_ELEMENTS, ONE_BYTE
from ottla_core.kafka.schema import Field, Schema, Struct
from ottla_core.kafka.source import FEW, LAYOUTS, Slot, Source
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS

_LONG: Final = frozenset({"committed_metadata"})
"""These strings may be longer than Kafka's limit if their spelling can say so. A handler has an error for them. A
client can do more with it than with the end of its connection, after which it sends the same request until it gives
up."""


class DecoderSource(Source):
    """`decode(data, at)` returns the message that begins there, and the position behind it."""

    def __init__(self, schema: Schema, version: int, message_type: type) -> None:
        super().__init__(schema, version)
        self._type: Final = message_type
        with self.block("def decode(data, at):"):
            self.line("size = len(data)")
            if schema.kind == "request":
                self.line(f"left = {MAX_ELEMENTS}")
            message = self._structure(schema.struct)
            self.when("at > size", "raise ends_early()")
            self.line(f"return {message}, at")

    # ---- structures ------------------------------------------------------------------------------------------------

    def _structure(self, of: Struct) -> str:
        """Read a structure, and return the variable that has it."""
        message = self._created(of)
        for field in self.plain_fields(of):
            self._field(field, f"{message}.{field.name}")
        if self.flexible:
            self._tags(of, message)
        self._flush()
        return message

    def _created(self, of: Struct) -> str:
        """Create a structure, in which the fields that this version does not always have get their defaults."""
        message, always = self.new_name("m"), self.plain_fields(of)
        self.known[of.name] = self._type if of is self.schema.struct else getattr(self._type, of.name)
        self.line(f"{message} = new({of.name})")
        others = sorted((repr(f.default), f"{message}.{f.name}") for f in of.fields if f not in always)
        for default, fields in groupby(others, key=lambda each: each[0]):
            self.line(" = ".join([*(name for _, name in fields), default]))
        return message

    def _tags(self, of: Struct, message: str) -> None:
        tags, known = self._read("tags", "B"), self.tagged_fields(of)
        with self.block(f"if {tags}:"):
            if not known:
                self.line(f"_, at = tagged_fields(data, at, {tags})")
                return
            tag, end, after = self.new_name("tag"), self.new_name("end"), self.new_name("after")
            self.line(f"{tags}, {after} = tagged_fields(data, at, {tags})")
            with self.block(f"for {tag}, at, {end} in {tags}:"):
                for field in known:
                    with self.block(f"if {tag} == {field.tag}:"):
                        self._field(field, f"{message}.{field.name}")
                        self._flush()
                        self.when(f"at > {end}", f"raise too_long({field.name!r})")
            self.line(f"at = {after}")

    # ---- fields ----------------------------------------------------------------------------------------------------

    def _field(self, field: Field, target: str) -> None:
        if field.is_array:
            with self._unless_null(field, target, self._length(field, "i")) as count:
                self._array(field, target, count)
        elif field.struct is not None and self.version in field.nullable:
            # A byte says whether the structure is there (KIP-893).
            with self._unless_null(field, target, self._read("there", "b")):
                self.line(f"{target} = {self._structure(field.struct)}")
        elif field.struct is not None:
            self._flush()
            self.line(f"{target} = {self._structure(field.struct)}")
        elif layout := LAYOUTS.get(field.kind):
            self.run.append(Slot(target, layout))
        else:
            self._content(field, target)

    @contextmanager
    def _unless_null(self, field: Field, target: str, length: str) -> Iterator[str]:
        """Write the code that runs unless the field is null, which a negative length says."""
        with self.block(f"if {length} >= 0:"):
            yield length
        with self.block("else:"):
            self.line(f"{target} = None" if self.version in field.nullable else f"raise is_null({field.name!r})")

    def _length(self, field: Field, layout: str) -> str:
        """Read a length or a count, and return the variable that has it."""
        if not self.is_compact(field):
            return self._read("n", layout)
        length = self._read("n", "B")
        with self.block(f"if {length} >= {ONE_BYTE}:"):
            self.line(f"{length}, at = long_varint(data, at, {length})")
            if field.kind == "string" and not field.is_array and field.name not in _LONG:
                self.when(f"{length} > MAX_STRING_BYTES + 1", f"raise too_long({field.name!r})")
        self.line(f"{length} -= 1")
        return length

    def _content(self, field: Field, target: str) -> None:
        """Read a string or bytes. Where they end behind the data, the message does too, which is seen at its end."""
        is_text, end = field.kind == "string", self.new_name("end")
        with self._unless_null(field, target, self._length(field, "h" if is_text else "i")) as length:
            self.line(f"{end} = at + {length}")
            source = "memoryview(data)" if field.kind == "records" else "data"
            self.line(f"{target} = {source}[at:{end}]{'.decode()' if is_text else ''}")
            self.line(f"at = {end}")

    # ---- arrays ----------------------------------------------------------------------------------------------------

    def _array(self, field: Field, target: str, count: str) -> None:
        """Compare the count with the bytes left, and read the elements.

        Requests have a limit for all their elements together, since they may come from any client.
        """
        size = self.element_min_bytes(field)
        if self.schema.kind == "request":
            self.line(f"left -= {count}")
        limit = "left < 0" if self.schema.kind == "request" else f"{count} > {MAX_ARRAY_ELEMENTS}"
        crowded = f"raise too_many({field.name!r}, {count}, size - at)"
        self.when(f"{count} * {size} > size - at or {limit}", crowded)
        if field.kind in LAYOUTS and field.kind != "uuid":
            layout = LAYOUTS[field.kind]
            few = f"{self.methods_of(layout, 'unpack_from')}[{count}](data, at)"
            many = f'unpack_from(f">{{{count}}}{layout}", data, at)'
            self.line(f"{target} = list({few} if {count} < {FEW} else {many})")
            self.line(f"at += {count} * {size}")
            return
        elements, layouts = self.new_name("list"), field.struct and self.fixed_layouts(field.struct)
        self.line(f"{target} = {elements} = []")
        if field.struct is None or layouts is None:
            self._loop(field, elements, count)
        elif not self.flexible:
            self._fixed_loop(field.struct, elements, count, layouts)
        else:
            # If every byte where an element without tags would have its count of tags is zero, no element has any.
            zeros = f"data[at + {size - 1}:at + {count} * {size}:{size}].count(0)"
            with self.block(f"if {zeros} == {count}:"):
                self._fixed_loop(field.struct, elements, count, f"{layouts}B")
            with self.block("else:"):
                self._loop(field, elements, count)

    def _loop(self, field: Field, elements: str, count: str) -> None:
        with self.block(f"for _ in range({count}):"):
            if field.struct is None:
                element = self.new_name("v")
                self._field(field._replace(is_array=False, nullable=range(0)), element)
                self._flush()
            else:
                element = self._structure(field.struct)
            self.line(f"{elements}.append({element})")

    def _fixed_loop(self, of: Struct, elements: str, count: str, layouts: str) -> None:
        """Read elements of a fixed size, all of them by one iterator."""
        fields, end = self.plain_fields(of), self.new_name("end")
        values = [self.new_name("v") for _ in range(len(fields) + self.flexible)]
        self.line(f"{end} = at + {count} * {self.min_bytes(of)}")
        with self.block(f"for {', '.join(values)}, in {self.method_of(layouts, 'iter_unpack')}(data[at:{end}]):"):
            message = self._created(of)
            for field, value in zip(fields, values, strict=False):
                self.line(f"{message}.{field.name} = {value}")
            self.line(f"{elements}.append({message})")
        self.line(f"at = {end}")

    # ---- runs ------------------------------------------------------------------------------------------------------

    def _read(self, name: str, layout: str) -> str:
        """Read the run and one more field, and return the variable that has this field."""
        self.run.append(Slot(self.new_name(name), layout))
        return self._flush()

    def _flush(self) -> str:
        """Read the fields of the run, and return the last variable."""
        names, layouts = ", ".join(slot.name for slot in self.run), "".join(slot.layout for slot in self.run)
        last = self.run[-1].name if self.run else ""
        self.run = []
        if layouts == "B":
            self.line(f"{names} = data[at]")
        elif layouts:
            self.line(f"{names}, = {self.method_of(layouts, 'unpack_from')}(data, at)")
        if layouts:
            self.line(f"at += {struct.calcsize(f'>{layouts}')}")
        return last
