"""How far groups are behind, as `ottla group show` and `ottla group watch` show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla_cli.failures import sentence
from ottla_cli.output import Item, Listing, write_table
from ottla_cli.terminal import put
from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.admin import Admin
    from ottla.admin.group_info import PartitionLag

KIND: Final = "group-lag/v1"
COLUMNS: Final = ("topic", "partition", "committed", "end", "records", "seconds", "member")


def lag_item(admin: Admin, name: str) -> dict[str, Any]:
    """A group with each of its partitions. Raises what the SDK does."""
    lag, group = admin.groups.lag(name), admin.groups.describe(name)
    return {
        "name": name,
        "state": group.state,
        "members": len(group.members),
        "coordinator": group.coordinator,
        "shard": group.shard,
        "records": lag.records,
        "seconds": lag.seconds,
        "partitions": [_partition_item(partition) for partition in lag.partitions],
    }


def _partition_item(lag: PartitionLag) -> dict[str, Any]:
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "committed": lag.committed,
        "start": lag.start,
        "end": lag.end,
        "records": lag.records,
        "seconds": lag.seconds,
        "oldest_unread_ms": lag.oldest_unread_ms,
        "member": lag.member_id,
        "client_id": lag.client_id,
        "host": lag.host,
        "error": None if lag.error is None else sentence(lag.error),
    }


def show_lag(item: Item) -> None:
    """A group as a table, below a line of totals."""
    put(as_text(item))
    rows = [{**partition, "seconds": _seconds(partition["seconds"])} for partition in item["partitions"]]
    extra = ["error"] if any(row["error"] for row in rows) else []
    if rows:
        write_table(Listing("", rows, (*COLUMNS, *extra)), indent=2)


def as_text(item: Item) -> str:
    """ "billing  Stable, 2 members, coordinator 0; 120 records behind, the oldest 42.9 s old"."""
    behind = "nothing is committed yet"
    if any(partition["committed"] is not None for partition in item["partitions"]):
        behind = f"{counted(item['records'], 'record')} behind"
        if item["records"] and item["seconds"] is not None:
            behind += f", the oldest {_seconds(item['seconds'])} s old"
    who = counted(item["members"], "member")
    if item["coordinator"] >= 0:  # Kafka's clusters do not name it
        who += f", coordinator {item['coordinator']}"
    return f"{item['name']}  {item['state']}, {who}; {behind}"


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:,.1f}"
