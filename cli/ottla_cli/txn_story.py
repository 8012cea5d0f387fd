"""Transactions in words: which one blocks readers of committed records, since when, until when, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ottla_cli.output import Item
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.transaction_info import (
        ActiveProducer,
        OpenTransaction,
        PartitionTransactions,
        TransactionEvent,
        TransactionInfo,
    )


_OF_SPARK: Final = re.compile(r"spark-(.+)-(?:r[0-9a-f]{8}-[0-9]+-[0-9]+|[0-9]+-[0-9]+-[0-9a-f]{8}(?:[0-9a-f]{8})?)")
"""The id of an attempt of a task that writes exactly once (docs/use/spark.md)."""

_REPLICATED: Final = (
    "its marker is being replicated: check whether `ottla partition ls --under-replicated` lists the partition"
)


def info_item(info: TransactionInfo) -> dict[str, Any]:
    """A transactional id as data; times are in ISO 8601, or None."""
    return {
        "name": info.name,
        "state": "Prepared" if info.is_prepared else info.state,
        "producer_id": info.producer_id,
        "epoch": info.producer_epoch,
        "timeout_s": info.timeout,
        "since": _iso(info.started_at),
        "until": _iso(info.ends_by),
        "partitions": [str(partition) for partition in info.partitions],
        "coordinator": info.coordinator,
        "shard": info.shard,
    }


def event_item(event: TransactionEvent) -> dict[str, Any]:
    return {
        "at": _iso(event.datetime),
        "kind": event.kind,
        "producer_id": event.producer_id,
        "epoch": event.producer_epoch,
        "client_id": event.client_id,
        "host": event.host,
        "cause": event.cause,
    }


def producer_item(producer: ActiveProducer) -> dict[str, Any]:
    return {
        "name": str(producer.producer_id),
        "producer_id": producer.producer_id,
        "epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence,
        "last_written_at": _iso(producer.last_written_at),
        "coordinator_epoch": producer.coordinator_epoch,
        "open_since_offset": producer.first_offset,
    }


def open_item(found: OpenTransaction) -> dict[str, Any]:
    partition, live = found.partition, None if found.is_hanging else found.transaction
    return {
        "name": f"{partition}@{found.first_offset}",
        "topic": partition.topic,
        "partition": partition.partition,
        "first_offset": found.first_offset,
        "transactional_id": None if found.transaction is None else found.transaction.name,
        "producer_id": found.producer.producer_id,
        "epoch": found.producer.producer_epoch,
        "state": "Unlisted" if found.may_be_live else "Hanging" if live is None else info_item(live)["state"],
        "since": None if live is None else _iso(live.started_at),
        "until": None if live is None else _iso(live.ends_by),
        "last_written_at": _iso(found.producer.last_written_at),
        "what_to_do": advice(found),
    }


def blocked_item(blocked: PartitionTransactions) -> Item:
    """A partition whose readers of committed records wait, with the transaction that holds the offset."""
    holder = next((o for o in blocked.open if o.first_offset == blocked.last_stable_offset), None)
    waits = {
        "name": str(blocked.partition),
        "topic": blocked.partition.topic,
        "partition": blocked.partition.partition,
        "last_stable_offset": blocked.last_stable_offset,
        "high_watermark": blocked.high_watermark,
        "records": blocked.high_watermark - blocked.last_stable_offset,
        "open": len(blocked.open),
    }
    if holder is not None:
        return {**open_item(holder), **waits}
    return {**waits, "transactional_id": None, "state": "Ended", "what_to_do": _REPLICATED}


def advice(found: OpenTransaction) -> str:
    info, (topic, partition) = found.transaction, found.partition
    if found.may_be_live:
        return "no coordinator names it, but it may be live: try again after transaction.max.timeout.ms plus 5 minutes"
    if info is None or found.is_hanging:
        at = f"--topic {topic} --partition {partition} --offset {found.first_offset}"
        return f"no coordinator will end it: `ottla txn abort {at}`"
    return waits_for(info)


def waits_for(info: TransactionInfo) -> str:
    """Return what a transaction waits for, and what to do."""
    if info.is_prepared and (settled := settled_by(info.name)):
        return f"it is prepared and has no timeout: its query ends it after a restart, or run `{settled}`"
    if info.is_prepared:
        return f"it is prepared and has no timeout: its application has to end it, or run `ottla txn abort {info.name}`"
    if info.started_at is None:
        return "no transaction is open"
    if info.state.startswith("Prepare"):
        left = ", ".join(map(str, info.partitions)) or "none"
        decided = f"its outcome is decided ({info.state})"
        return f"{decided}; partitions without a marker: {left}; check that each has a leader"
    until = "it has no timeout" if info.ends_by is None else f"it times out at {_shown(info.ends_by)}"
    return f"its producer has not ended it; {until}; `ottla txn abort {info.name}` aborts it now"


def settled_by(name: str) -> str:
    """Return the command that ends all transactions of a Spark write alike; "" for a transaction of another kind."""
    found = _OF_SPARK.fullmatch(name)
    return f"python -m pyspark_ottla.settle {found[1]}" if found else ""


def blocked_story(item: Item) -> Iterator[str]:
    """Yield the lines of one partition."""
    behind = counted(item["records"], "record")
    yield f"{item['name']}: readers of committed records wait at {item['last_stable_offset']}, {behind} behind the end"
    if "producer_id" in item:
        who = item["transactional_id"] or "an unknown transactional id"
        since = f"since {item['since']}" if item["since"] else f"last written to at {item['last_written_at']}"
        producer = f"producer {item['producer_id']}, epoch {item['epoch']}"
        yield f"  {who} holds it back: {producer}, {item['state']}, {since}"
    yield f"  {item['what_to_do']}"


def story(info: TransactionInfo) -> Iterator[str]:
    """Yield the lines of one transactional id: what has happened to it, and what it waits for."""
    for event in info.events:
        caller = f" by {event.client_id or 'a client'} at {event.host}" if event.host else ""
        cause = f": {event.cause}" if event.cause else ""
        producer = f"producer {event.producer_id}, epoch {event.producer_epoch}"
        yield f"  {_shown(event.datetime)}  {event.kind}{caller}, {producer}{cause}"
    since = "" if info.started_at is None else f", open since {_shown(info.started_at)}"
    yield f"{info.name} is {info_item(info)['state']}{since}: {waits_for(info)}"


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")


def _shown(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
