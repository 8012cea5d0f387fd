"""Batches of records, which are made when they are looked at."""

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
    """Records in the order of each partition, made when they are looked at: `len()` and `offsets` cost nothing.

    Looking at a record that its deserializer can't read raises SerializationError. False where it is empty.
    """

    __slots__ = ("_flat", "_length", "_positions", "_segments", "_serdes", "group_metadata")

    def __init__(
        self,
        segments: list[Segment],
        serdes: Serdes,
        group_metadata: GroupMetadata | None = None,
        positions: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> None:
        self._positions = positions  # where the consumer reads on
        self.group_metadata = group_metadata  # as whom a member of a group got it, for `tx.commit_offsets`
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
    def topic_ids(self) -> Mapping[TopicPartition, TopicId]:
        """Of a group's: for each partition the id of the topic that it was read from."""
        return {} if self.group_metadata is None else self.group_metadata.topic_ids

    @property
    def first_offsets(self) -> dict[TopicPartition, int]:
        """For each partition where its records in here begin."""
        return {partition: first_offset(part) for partition, part in reversed(self._segments)}

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Return where each partition continues: after its last record in this batch, and after whatever was read
        behind that and is no record, such as the end of a transaction (KIP-1094)."""
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
