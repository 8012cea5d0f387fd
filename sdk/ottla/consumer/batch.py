"""Batches of records. A record object is created only when you look at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from ottla.consumer.columns import to_arrow, to_pandas
from ottla.consumer.completed_fetch import RecordRange, first_offset, next_offset
from ottla.generics import K, V
from ottla.record import Record
from ottla.serdes.record_reader import Serdes
from ottla_core.model import TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.client.offsets import GroupMetadata
    from ottla_core.records.record import RawRecord

Segment = tuple[TopicPartition, RecordRange]


class Batch(Sequence[Record[K, V]]):
    """A batch of records, in order within each partition.

    Each record is deserialized when you access it, so `len()` and `offsets` cost nothing. Accessing a record that can't
    be deserialized raises SerializationError. An empty batch is falsy.
    """

    __slots__ = ("_flat", "_length", "_positions", "_segments", "_serdes", "group_metadata")

    def __init__(
        self,
        segments: list[Segment],
        serdes: Serdes,
        group_metadata: GroupMetadata | None = None,
        positions: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._positions = positions  # where the consumer continues
        self.group_metadata = group_metadata  # the member that received it, for `tx.commit_offsets`
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
        """Return the key of every record, in order. This is cheaper than iterating over records."""
        return [key for partition, part in self._segments for key in self._field("key", partition, part)]

    def values(self) -> list[V]:
        """Return the value of every record, in order. This is cheaper than iterating over records."""
        return [value for partition, part in self._segments for value in self._field("value", partition, part)]

    def extend(self, columns: dict[str, list[Any]]) -> None:
        """Append each field of each record to the list of the same name; a missing timestamp becomes None."""
        for partition, part in self._segments:
            raws = list(part)
            for name, column in columns.items():
                column += self._field(name, partition, raws)

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Return the records as a pyarrow.Table with the given fields, by default all.

        Needs `pip install 'ottla[arrow]'`. The type of the key column fits all keys, and the type of the value column
        fits all values; dicts become structs. `timestamp` is in milliseconds, UTC. Raises ConfigError if no type fits
        all keys or all values, and SerializationError for a record that can't be deserialized.
        """
        return to_arrow([self], columns)

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Return the records as a pandas.DataFrame with the given fields, by default all.

        Needs `pip install 'ottla[arrow]'`. Keys and values are the objects that the deserializers return. Raises
        SerializationError.
        """
        return to_pandas([self], columns)

    @property
    def segments(self) -> list[Segment]:
        """The fetched records, partition by partition, not deserialized."""
        return self._segments

    @property
    def topic_ids(self) -> Mapping[TopicPartition, TopicId]:
        """The id of the topic that each partition was read from; empty if the consumer has no group."""
        return {} if self.group_metadata is None else self.group_metadata.topic_ids

    @property
    def first_offsets(self) -> dict[TopicPartition, int]:
        """The offset of each partition's first record in this batch."""
        return {partition: first_offset(part) for partition, part in reversed(self._segments)}

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return the next offset to read in each partition.

        This offset is past the last record in the batch, and past anything else read after that record, such as a
        transaction marker (KIP-1094).
        """
        after = {partition: next_offset(part) for partition, part in self._segments}
        return {partition: max(at, self._positions.get(partition, at)) for partition, at in after.items()}

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
