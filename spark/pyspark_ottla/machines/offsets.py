"""Offsets as Spark keeps them, and where a query may begin and end.

In the checkpoint and in options they are the JSON of Spark's own Kafka source: {"orders": {"0": 23, "1": -2}}. In the
checkpoint each topic has its "id", too, because offsets mean nothing in another topic of its name. It has "epochs": for
each partition, a leader epoch in which the log had every record before the offset. After an unclean election they tell
whether the log still has them (KIP-320). Older checkpoints have neither. A query's report of its topics' ends may have
"open", too: for each partition, the records behind the end of what is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

Offsets = Mapping[TopicPartition, int]
"""For each partition, the next offset to read."""

Epochs = Mapping[TopicPartition, int]
"""For each partition, an epoch of its leader in which the log reached an offset."""

TopicIds = Mapping[str, str]
"""Topic ids by the names of topics."""

Json = dict[str, dict[str, Any]]

ID, EPOCHS, OPEN = "id", "epochs", "open"
NOT_PARTITIONS: Final = (ID, EPOCHS, OPEN)
"""These keys are beside the numbers of a topic's partitions."""

EARLIEST: Final = EARLIEST_TIMESTAMP
"""It is -2 instead of an offset."""
LATEST: Final = LATEST_TIMESTAMP
"""It is -1 instead of an offset."""


def to_json(
    offsets: Offsets, ids: TopicIds | None = None, uncommitted: Offsets | None = None, epochs: Epochs | None = None
) -> Json:
    """Return offsets as JSON, with topics and partitions in order, so that equal offsets are equal texts."""
    json_offsets: Json = {}
    for (topic, number), offset in sorted(offsets.items()):
        json_offsets.setdefault(topic, {})[str(number)] = offset
    for topic, numbers in json_offsets.items():
        if ids and topic in ids:
            numbers[ID] = ids[topic]
    for key, values in ((EPOCHS, epochs), (OPEN, uncommitted)):
        for topic, numbers in to_json(values).items() if values else ():
            json_offsets[topic][key] = numbers
    return json_offsets


def from_json(json_offsets: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Return the offsets of what `to_json` made. Raises ValueError for anything else."""
    if not all(isinstance(numbers, Mapping) for numbers in json_offsets.values()):
        raise ValueError(f"{json_offsets} does not map topics to offsets")
    return {
        TopicPartition(topic, int(number)): at
        for topic, numbers in json_offsets.items()
        for number, at in numbers.items()
        if number not in NOT_PARTITIONS
    }


def open_in(json_offsets: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Return for each partition that has any the number of records that are not committed yet, or lie behind such
    records."""
    return from_json({topic: numbers[OPEN] for topic, numbers in json_offsets.items() if OPEN in numbers})


def epochs_in(json_offsets: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Return the epochs of the partitions' leaders, as far as they have one."""
    return from_json({topic: numbers[EPOCHS] for topic, numbers in json_offsets.items() if EPOCHS in numbers})


def epochs_of(offsets: Offsets, latest: Epochs, before: Offsets, epochs_before: Epochs) -> Epochs:
    """Return the epochs to keep with `offsets`: of the last lookup where they have advanced, and else as before.

    So equal offsets stay equal texts, whichever broker leads.
    """
    return {
        partition: epoch
        for partition, offset in offsets.items()
        if (epoch := (epochs_before if before.get(partition) == offset else latest).get(partition, -1)) >= 0
    }


def ids_in(json_offsets: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the topics' ids, as far as they have one."""
    return {topic: numbers[ID] for topic, numbers in json_offsets.items() if ID in numbers}


def differing(left: TopicIds, right: TopicIds) -> frozenset[str]:
    """Return the names that stand for different topics in these."""
    return frozenset(name for name, id_ in left.items() if right.get(name, id_) != id_)


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: by partition an offset (or -2, -1) or a time in ms, and `otherwise` for the other
    partitions.

    `or_latest` decides about a time after the last record: it means the end of the log, or else it is an error.
    """

    otherwise: int | None = None
    offsets: Offsets = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: Offsets = field(default_factory=dict)
    or_latest: bool = False

    @property
    def named(self) -> frozenset[TopicPartition]:
        """These are the partitions that it names itself."""
        return frozenset({*self.offsets, *self.timestamps_ms})

    def timestamp_of(self, partition: TopicPartition) -> int | None:
        """Return the timestamp for ListOffsets (-2, -1 or ms), or None if the offset itself is known."""
        if partition in self.timestamps_ms:
            return self.timestamps_ms[partition]
        if partition in self.offsets:
            offset = self.offsets[partition]
            return offset if offset < 0 else None
        return self.otherwise if self.timestamp_ms is None else self.timestamp_ms
