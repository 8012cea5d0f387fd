"""What a consumer hands out: single records, and batches of them whose records are made when they are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from ottla.columns import to_arrow, to_pandas
from ottla.errors import OttlaError, SerializationError
from ottla.generics import K, V
from ottla.runs import Part, first_offset, next_offset
from ottla.serdes import AUTO_KEY, AUTO_READERS, AUTO_VALUE, Deserializer, deserialize_auto
from ottla_core.model import TopicPartition

if TYPE_CHECKING:
    from ottla_core.records.record import Headers, RawRecord


class Record(Generic[K, V]):
    """One record.

    Attributes:
        topic, partition, offset: where it is.
        timestamp: milliseconds since the epoch, -1 for none; `datetime` is the same as a datetime in UTC.
        key, value: deserialized; None for null.
        headers: (name, bytes or None) pairs in the order in which they were written; names may repeat.
    """

    __slots__ = ("headers", "key", "offset", "partition", "timestamp", "topic", "value")

    def __init__(
        self, topic: str, partition: int, offset: int, timestamp: int, key: K | None, value: V, headers: Headers
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    @property
    def datetime(self) -> datetime | None:
        """The timestamp in UTC, None where the record has none."""
        return None if self.timestamp < 0 else datetime.fromtimestamp(self.timestamp / 1000, UTC)

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name, None where there is none (or where it is null)."""
        return next((value for given, value in reversed(self.headers) if given == name), None)

    def __repr__(self) -> str:
        return (
            f"Record({self.topic}-{self.partition}@{self.offset}, timestamp={self.timestamp}, "
            f"key={self.key!r:.60}, value={self.value!r:.120})"
        )


class Serdes:
    """How keys and values are read. A record that can't be read raises SerializationError, which names it."""

    __slots__ = ("key", "value")

    def __init__(self, key: Deserializer, value: Deserializer) -> None:
        self.key = key
        self.value = value

    def record(self, partition: TopicPartition, raw: RawRecord) -> Record[Any, Any]:
        """`raw` with its key and value deserialized."""
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

    def keys(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """The key of each record; raises SerializationError for the first that can't be read."""
        return _read(2, self.key, partition, raws)

    def values(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """The same for values."""
        return _read(3, self.value, partition, raws)

    def headers(self, raws: Iterable[RawRecord]) -> list[Headers]:
        """The headers of each record."""
        return [raw[4] for raw in raws]


class AutoSerdes(Serdes):
    """Of these two at least one is `auto`: a record's headers say what it is, and that is not shown."""

    __slots__ = ("_as", "_hidden")

    def __init__(self, key: Deserializer, value: Deserializer) -> None:
        super().__init__(key, value)
        keys, values = ({**(AUTO_READERS if read is deserialize_auto else {}), None: read} for read in (key, value))
        self._as = {(k, v): Serdes(keys[k], values[v]) for k in keys for v in values}
        self._hidden = {mark for mark, read in ((AUTO_KEY, key), (AUTO_VALUE, value)) if read is deserialize_auto}

    def record(self, partition: TopicPartition, raw: RawRecord) -> Record[Any, Any]:
        """The same, as it is marked."""
        headers = raw[4]
        if not headers:
            return super().record(partition, raw)
        return self._as_marked(headers).record(partition, (*raw[:4], self._shown(headers)))

    def keys(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """The same, as they are marked."""
        return [key for raw in raws for key in _read(2, self._as_marked(raw[4]).key, partition, (raw,))]

    def values(self, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        """The same, as they are marked."""
        return [value for raw in raws for value in _read(3, self._as_marked(raw[4]).value, partition, (raw,))]

    def headers(self, raws: Iterable[RawRecord]) -> list[Headers]:
        """The same, without the marks."""
        return [self._shown(raw[4]) for raw in raws]

    def _as_marked(self, headers: Headers) -> Serdes:
        """How the record is read that has these headers; a mark that nothing is known of is none."""
        marks = {name: text for name, text in headers if name in self._hidden and text in AUTO_READERS}
        return self._as[marks.get(AUTO_KEY), marks.get(AUTO_VALUE)]

    def _shown(self, headers: Headers) -> Headers:
        return [header for header in headers if header[0] not in self._hidden]


def serdes_of(key: Deserializer, value: Deserializer) -> Serdes:
    """The two together."""
    return (AutoSerdes if deserialize_auto in (key, value) else Serdes)(key, value)


def unreadable(partition: TopicPartition, offset: int, error: Exception) -> SerializationError:
    """What a deserializer's failure is raised as."""
    words = error.message if isinstance(error, OttlaError) else str(error)
    return SerializationError(
        f"the record at offset {offset} of {partition} can't be deserialized: {words}",
        hint=f"give other deserializers, on_bad_record='skip', or seek to {offset + 1}",
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
    )


Segment = tuple[TopicPartition, Part]


class Batch(Sequence[Record[K, V]]):
    """Records in the order of each partition, made when they are looked at: `len()` and `offsets` cost nothing.

    Looking at a record that its deserializer can't read raises SerializationError. False where it is empty.
    """

    __slots__ = ("_flat", "_length", "_segments", "_serdes")

    def __init__(self, segments: list[Segment], serdes: Serdes) -> None:
        self._segments = segments
        self._serdes = serdes
        self._length = sum(len(part) for _, part in segments)
        self._flat: list[tuple[TopicPartition, RawRecord]] | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Record[K, V]]:
        make = self._serdes.record
        return (make(partition, raw) for partition, part in self._segments for raw in part)

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...
    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        if self._flat is None:
            self._flat = [(partition, raw) for partition, part in self._segments for raw in part]
        if isinstance(index, slice):
            return [self._serdes.record(partition, raw) for partition, raw in self._flat[index]]
        return self._serdes.record(*self._flat[index])

    def keys(self) -> list[K | None]:
        """Every record's key, in order; cheaper than the records themselves."""
        return [key for partition, part in self._segments for key in self._field("key", partition, part)]

    def values(self) -> list[V]:
        """Every record's value, in order; cheaper than the records themselves."""
        return [value for partition, part in self._segments for value in self._field("value", partition, part)]

    def extend(self, columns: dict[str, list[Any]]) -> None:
        """Append each record's fields to the lists that bear their names, a timestamp of none as None."""
        for partition, part in self._segments:
            raws = list(part)
            for name, column in columns.items():
                column += self._field(name, partition, raws)

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """A pyarrow.Table of the records, with these of their fields or all. Needs `pip install 'ottla[arrow]'`.

        Keys and values get the type that all of them have: dicts become structs. `timestamp` is in UTC, in ms. Raises
        ConfigError where they have none in common, and SerializationError.
        """
        return to_arrow([self], columns)

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """A pandas.DataFrame of the records, with these of their fields or all. Needs `pip install 'ottla[arrow]'`.

        Keys and values are what the deserializers made of them. Raises SerializationError.
        """
        return to_pandas([self], columns)

    @property
    def segments(self) -> list[Segment]:
        """The records as they came: of one partition after the other, not deserialized."""
        return self._segments

    @property
    def first_offsets(self) -> dict[TopicPartition, int]:
        """For each partition where its records in here begin."""
        return {partition: first_offset(part) for partition, part in reversed(self._segments)}

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """For each partition the offset after its last record in here: where to go on reading."""
        return {partition: next_offset(part) for partition, part in self._segments}

    def _field(self, name: str, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
        match name:
            case "topic" | "partition":
                return [getattr(partition, name) for _ in raws]
            case "offset":
                return [raw[0] for raw in raws]
            case "timestamp":
                return [None if raw[1] < 0 else raw[1] for raw in raws]
            case "key":
                return self._serdes.keys(partition, raws)
            case "value":
                return self._serdes.values(partition, raws)
        return self._serdes.headers(raws)

    def __repr__(self) -> str:
        spans = [f"{name}@{first_offset(part)}..{next_offset(part) - 1}" for name, part in self._segments]
        return f"Batch({self._length} records{': ' if spans else ''}{', '.join(spans)})"


def _read(field: Literal[2, 3], read: Deserializer, partition: TopicPartition, raws: Iterable[RawRecord]) -> list[Any]:
    """The key or value of each record; raises SerializationError for the first that can't be read."""
    column: list[Any] = []
    for raw in raws:
        data = raw[field]
        try:
            column.append(None if data is None else read(data))
        except Exception as error:
            raise unreadable(partition, raw[0], error) from error
    return column
