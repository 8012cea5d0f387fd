"""Blocks of batches as a mirror fetches them."""

from __future__ import annotations

from dataclasses import dataclass

from batches import sealed, simple_records

from ottla_core.model import TopicId
from ottla_core.records.batch import HEADER_SIZE, framed, read_header
from ottla_core.records.compression import Codec

TOPIC_ID = TopicId(b"t" * 16)


@dataclass(frozen=True)
class Block:
    records: bytes
    offset: int = 0
    next_offset: int = 1000
    aborted: tuple[tuple[int, int], ...] = ()
    topic_id: TopicId = TOPIC_ID
    leader_epoch: int = 3


def stored(count: int, base_offset: int, codec: Codec = Codec.NONE, /, **fields: int) -> bytes:
    """A batch as it lies in the source's log."""
    batch = sealed(simple_records(count), codec)
    header = read_header(batch)._replace(base_offset=base_offset, leader_epoch=3)
    fields["attributes"] = fields.get("attributes", 0) | codec
    return framed(header._replace(**fields), batch[HEADER_SIZE:])
