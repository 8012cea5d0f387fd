"""`ottla log dump`: the content of a file of a log, item by item (module items)."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EBADMSG
from pathlib import Path

from ottla_broker.machines.producers import Producers
from ottla_broker.storage import checkpoint, producer_snapshot
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ottla_broker.storage.log_dir import PARTITION_METADATA
from ottla_broker.storage.recovery import SEGMENT_NAME
from ottla_broker.storage.scan import headers
from ottla_broker.storage.swap import INDEX_SUFFIXES
from ottla_broker.storage.transactions import aborted_index
from ottla_stack.log_tools.damage import bytes_problem, read_entries, stored_crc
from ottla_stack.log_tools.items import Item, batch_item, record_items
from ottla_stack.log_tools.log_files import no_log_file, read_metadata


def items_of(path: Path, *, records: bool = False) -> Iterator[Item]:
    """Yield the items in the file. With `records`, also yield those inside the batches. Control records come in any
    case.

    Raises ConfigError for a file of another kind, and ValueError for a torn one.
    """
    if SEGMENT_NAME.fullmatch(path.name):
        return _batches(path, records=records)
    if path.suffix in INDEX_SUFFIXES:
        return _entries(path)
    if path.suffix == aborted_index.SUFFIX:
        return _aborted(path)
    if path.suffix == producer_snapshot.SUFFIX:
        return _producers(path)
    if path.name == PARTITION_METADATA:
        return ({"type": "field", name: value} for name, value in read_metadata(path.parent).items())
    if path.name.endswith("-checkpoint"):
        return _checkpoint(path)
    raise no_log_file(path)


def _batches(path: Path, *, records: bool) -> Iterator[Item]:
    file, at = DataFile(path), 0
    end = file.size_bytes()
    for position, header in headers(file, 0, end):
        is_valid = stored_crc(file, position, header) == header.crc
        yield batch_item(position, header, is_valid=is_valid)
        if is_valid and (records or header.is_control):
            yield from record_items(file.read(position, header.size_bytes), header, position)
        at = position + header.size_bytes
    if at < end and (problem := bytes_problem(file, at, end)):
        yield {"type": "damage", "position": at, "problem": problem}


def _entries(path: Path) -> Iterator[Item]:
    base_offset = int(path.stem) if path.stem.isdigit() else 0
    if path.suffix == INDEX_SUFFIXES[0]:
        for relative, position in read_entries(path, OFFSET_ENTRY):
            yield {"type": "offset", "offset": base_offset + relative, "position": position}
    else:
        for timestamp_ms, relative in read_entries(path, TIME_ENTRY):
            yield {"type": "time", "timestamp": timestamp_ms, "offset": base_offset + relative}


def _aborted(path: Path) -> Iterator[Item]:
    index = aborted_index.AbortedIndex(path)
    try:
        yield from ({"type": "aborted", "version": 0, **entry._asdict()} for entry in index.entries())
    except OSError as error:
        if error.errno != EBADMSG:
            raise
        raise ValueError("its entries are not in order") from error
    if not index.has_whole_entries:
        raise ValueError("its last entry is incomplete")


def _producers(path: Path) -> Iterator[Item]:
    entries, fence, _ = producer_snapshot.decode(path.read_bytes())
    producers = Producers(entries)
    for producer_id in sorted(entries):
        state = producers.get(producer_id)
        assert state is not None, "it is one of them"
        last = state.batches[-1] if state.batches else None
        yield {
            "type": "producer",
            "producer_id": producer_id,
            "producer_epoch": state.epoch,
            "last_timestamp": state.seen_at_ms,
            "first_sequence": last.first_sequence if last else -1,
            "last_sequence": last.last_sequence if last else -1,
            "last_offset": state.last_offset,
            "transaction_offset": state.transaction_offset,
            "coordinator_epoch": state.coordinator_epoch,
            "batches": [batch._asdict() for batch in state.batches],
        }
    if fence.exists:
        yield {
            "type": "fence",
            "shard_epoch": fence.fence.epoch,
            "incarnation": fence.fence.incarnation,
            "offset": fence.offset,
        }


def _checkpoint(path: Path) -> Iterator[Item]:
    for fields in checkpoint.read_fields(path) or ():
        if path.name == checkpoint.LEADER_EPOCHS:
            epoch, start_offset = map(int, fields)
            yield {"type": "epoch", "epoch": epoch, "start_offset": start_offset}
        elif path.name == checkpoint.METADATA:
            restored, revision = map(int, fields)
            yield {"type": "entry", "restored": restored, "revision": revision}
        else:
            topic, partition, offset = fields
            yield {"type": "entry", "topic": topic, "partition": int(partition), "offset": int(offset)}
