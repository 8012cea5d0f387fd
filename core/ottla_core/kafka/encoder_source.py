"""Writes the function that spells one version of one message.

The pieces are collected in a list and joined at the end. What this version does not have is not looked at, unless a
value there has to be refused. This is DeleteGroupsRequest in version 2:

    def encode(m):
        out = []
        v1 = m.groups_names
        n2 = len(v1) + 1
        out.append(SMALL[n2] if n2 < 128 else varint(n2))
        for m3 in v1:
            v4 = m3.encode()
            n5 = len(v4) + 1
            out.append(SMALL[n5] if n5 < 128 else text_size(n5))
            out.append(v4)
        out.append(b'\\x00')
        return b"".join(out)
"""

from __future__ import annotations

from ottla_core.kafka.runtime import ONE_BYTE
from ottla_core.kafka.schema import Field, Schema, Struct
from ottla_core.kafka.source import FEW, LAYOUTS, Slot, Source


class EncoderSource(Source):
    """`encode(m)` returns the bytes of a message."""

    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self._out = "out"
        with self.block("def encode(m):"):
            self.line("out = []")
            self._structure(schema.struct, "m")
            self._flush()
            self.line('return b"".join(out)')

    # ---- structures ------------------------------------------------------------------------------------------------

    def _structure(self, of: Struct, message: str) -> None:
        """Spell a structure. What this version lacks is left out if Kafka calls it ignorable, and refused otherwise."""
        for field in of.fields:
            if self.version not in field.versions and not field.ignorable:
                self.when(_differs(field, f"{message}.{field.name}"), f"raise absent({field.name!r})")
        tags = self._tags(of, message)
        for field in self.plain_fields(of):
            self._field(field, f"{message}.{field.name}")
        if tags:
            self._flush()
            self.line(f"{self._out}.append(tags_bytes({tags}))")
        elif self.flexible:
            self.run.append(Slot("", "x"))

    def _tags(self, of: Struct, message: str) -> str:
        """Spell the tagged fields that are not at their defaults, and return the variable that has them, if any."""
        if not (fields := self.tagged_fields(of)):
            return ""
        self._flush()
        tags, around = self.new_name("tags"), self._out
        self.line(f"{tags} = []")
        for field in fields:
            with self.block(f"if {_differs(field, f'{message}.{field.name}')}:"):
                self._out = self.new_name("out")
                self.line(f"{self._out} = []")
                self._field(field, f"{message}.{field.name}")
                self._flush()
                self.line(f'{tags}.append(({field.tag}, b"".join({self._out})))')
        self._out = around
        return tags

    # ---- fields ----------------------------------------------------------------------------------------------------

    def _field(self, field: Field, value: str) -> None:
        if layout := not field.is_array and LAYOUTS.get(field.kind):
            self.run.append(Slot(value, layout))
        elif field.is_array:
            self._array(field, self._counted(field, value, "i"))
        elif field.struct is None:
            content = self._counted(field, value, "h" if field.kind == "string" else "i")
            self.line(f"{self._out}.append({content})")
        else:
            self._nested(field.struct, value, nullable=self.version in field.nullable)

    def _nested(self, of: Struct, value: str, *, nullable: bool) -> None:
        """Spell a structure that may be null. A byte before it says whether it is there (KIP-893)."""
        self._flush()
        message = self.new_name("m")
        self.line(f"{message} = {value}")
        if not nullable:
            self._structure(of, message)
            return
        with self.block(f"if {message} is None:"):
            self.line(f'{self._out}.append(b"\\xff")')
        with self.block("else:"):
            self.run.append(Slot("1", "b"))
            self._structure(of, message)
            self._flush()

    def _counted(self, field: Field, value: str, layout: str) -> str:
        """Spell the length of a string, of bytes or of an array. Return the variable that has the content."""
        content, size, compact = self.new_name("v"), self.new_name("n"), self.is_compact(field)
        is_text = field.kind == "string" and not field.is_array
        encoded = f"{value}.encode()" if is_text else value
        nothing = () if field.is_array else b""
        counted = f"len({content}) + 1" if compact else f"len({content})"
        if self.version in field.nullable:
            with self.block(f"if {value} is None:"):
                self.line(f"{content} = {nothing!r}")
                self.line(f"{size} = {0 if compact else -1}")
            with self.block("else:"):
                self.line(f"{content} = {encoded}")
                self.line(f"{size} = {counted}")
        else:
            self.line(f"{content} = {encoded}")
            self.line(f"{size} = {counted}")
        if not compact:
            self.run.append(Slot(size, layout))
            self._flush()
            return content
        before, self.run = self.run, []
        short = self._packed([*before, Slot(size, "B")]) if before else f"SMALL[{size}]"
        long = f"text_size({size})" if is_text else f"varint({size})"
        long = f"{self._packed(before)} + {long}" if before else long
        self.line(f"{self._out}.append({short} if {size} < {ONE_BYTE} else {long})")
        return content

    def _array(self, field: Field, elements: str) -> None:
        of, element = field.struct, self.new_name("m")
        if field.kind in LAYOUTS and field.kind != "uuid":
            layout, count = LAYOUTS[field.kind], f"len({elements})"
            few = f"{self.methods_of(layout, 'pack')}[{count}](*{elements})"
            many = f'pack(f">{{{count}}}{layout}", *{elements})'
            self.line(f"{self._out}.append({few} if {count} < {FEW} else {many})")
        elif of and self.fixed_layouts(of) and all(self.version in f.versions or f.ignorable for f in of.fields):
            slots = [Slot(f"{element}.{f.name}", LAYOUTS[f.kind]) for f in self.plain_fields(of)]
            packed = self._packed([*slots, *[Slot("", "x")] * self.flexible])
            self.line(f"{self._out} += [{packed} for {element} in {elements}]")
        else:
            with self.block(f"for {element} in {elements}:"):
                if of is None:
                    self._field(field._replace(is_array=False, nullable=range(0)), element)
                else:
                    self._structure(of, element)
                self._flush()

    # ---- runs ------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Spell the fields of the run."""
        if self.run:
            run, self.run = self.run, []
            self.line(f"{self._out}.append({self._packed(run)})")

    def _packed(self, run: list[Slot]) -> str:
        """Return the expression that spells a run."""
        layouts = "".join(slot.layout for slot in run)
        values = ", ".join(slot.name for slot in run if slot.name)
        return f"{self.method_of(layouts, 'pack')}({values})" if values else repr(bytes(len(run)))


def _differs(field: Field, value: str) -> str:
    """Return the condition under which a field is not at its default."""
    if field.default is None:
        return f"{value} is not None"
    return value if field.default in (False, 0, "", b"", ()) else f"{value} != {field.default!r}"
