"""Reads records from the bytes of their keys and values, with a pair of deserializers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from ottla.errors import OttlaError, SerializationError
from ottla.record import Record
from ottla.serdes.serdes import AUTO_KEY, AUTO_READERS, AUTO_VALUE, Deserializer, deserialize_auto
from ottla_core.model import TopicPartition

if TYPE_CHECKING:
    from ottla_core.records.record import Headers, RawRecord


class Serdes:
    """A pair of deserializers. A record that can't be read raises a SerializationError that names it."""

    __slots__ = ("key", "value")

    def __init__(self, key: Deserializer, value: Deserializer) -> None:
        self.key = key
        self.value = value

    def record(self, partition: TopicPartition, raw: RawRecord) -> Record[Any, Any]:
        """Return `raw` with its key and value deserialized."""
        offset, timestamp, key, value, headers = raw
        try:
            return Record(
                partition[0],
                partition[1],
                offset,
                timestamp,
                None if key is None else self.key(key),
                None if value is None else self.value(value),
                headers,
            )
        except Exception as error:
            raise unreadable(partition, offset, error) from error

    def marked(self, headers: Headers) -> Serdes:
        """Return the deserializers for a record with these headers."""
        return self

    def keys(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """Return the key of each record; raises SerializationError for the first that can't be read."""
        return _read(2, self.key, partition, raws)

    def values(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """Return the value of each record; raises SerializationError for the first that can't be read."""
        return _read(3, self.value, partition, raws)

    def headers(self, raws: Iterable[RawRecord]) -> list[Headers]:
        """Return the headers of each record."""
        return [raw[4] for raw in raws]


class AutoSerdes(Serdes):
    """A pair of which at least one is `auto`: marks in a record's headers say what was sent, and are then removed."""

    __slots__ = ("_as", "_hidden")

    def __init__(self, key: Deserializer, value: Deserializer) -> None:
        super().__init__(key, value)
        keys, values = ({**(AUTO_READERS if read is deserialize_auto else {}), None: read} for read in (key, value))
        self._as = {(k, v): Serdes(keys[k], values[v]) for k in keys for v in values}
        self._hidden = {mark for mark, read in ((AUTO_KEY, key), (AUTO_VALUE, value)) if read is deserialize_auto}

    def record(self, partition: TopicPartition, raw: RawRecord) -> Record[Any, Any]:
        """Return `raw` with its key and value deserialized by its marks."""
        headers = raw[4]
        if not headers:
            return super().record(partition, raw)
        return self.marked(headers).record(partition, (*raw[:4], self._shown(headers)))

    def keys(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """Return the key of each record, read by its mark."""
        return [key for raw in raws for key in _read(2, self.marked(raw[4]).key, partition, (raw,))]

    def values(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """Return the value of each record, read by its mark."""
        return [value for raw in raws for value in _read(3, self.marked(raw[4]).value, partition, (raw,))]

    def headers(self, raws: Iterable[RawRecord]) -> list[Headers]:
        """Return the headers of each record, without the marks."""
        return [self._shown(raw[4]) for raw in raws]

    def marked(self, headers: Headers) -> Serdes:
        """Return the deserializers by the marks in these headers; an unknown mark is ignored."""
        marks = {name: text for name, text in headers if name in self._hidden and text in AUTO_READERS}
        return self._as[marks.get(AUTO_KEY), marks.get(AUTO_VALUE)]

    def _shown(self, headers: Headers) -> Headers:
        return [header for header in headers if header[0] not in self._hidden]


def serdes_of(key: Deserializer, value: Deserializer) -> Serdes:
    """Return the pair of these deserializers."""
    return (AutoSerdes if deserialize_auto in (key, value) else Serdes)(key, value)


def unreadable(partition: TopicPartition, offset: int, error: Exception) -> SerializationError:
    """Return the error for a deserializer's failure."""
    message = error.message if isinstance(error, OttlaError) else str(error)
    return SerializationError(
        f"the record at offset {offset} of {partition} can't be deserialized: {message}",
        hint=f"use another deserializer, set on_bad_record='skip', or seek to {offset + 1}",
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
    )


def _read(field: Literal[2, 3], read: Deserializer, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
    """Return the key or value of each record; raises SerializationError for the first that can't be read."""
    column: list[Any] = []
    for raw in raws:
        data = raw[field]
        try:
            column.append(None if data is None else read(data))
        except Exception as error:
            raise unreadable(partition, raw[0], error) from error
    return column
