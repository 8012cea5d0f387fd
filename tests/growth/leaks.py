"""Plant leaks: a function that forgets something is replaced by one that does not. Each has to be found."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from tests.growth.roles import FLOW
from tests.growth.verdict import Verdict

from ottla_broker.machines.producers import Producers
from ottla_broker.maintenance.background_work import Maintenance
from ottla_broker.replication.following import Following
from ottla_broker.storage.log_dir import LogDir
from ottla_controller.machines.partition_index import PartitionIndex
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_mirror.clusters.log import LogRecord
from ottla_mirror.syncing.flow_state import FlowState
from ottla_txn_coordinator.machines.shard import TransactionShard


@dataclass(frozen=True)
class Leak:
    """`make(intact)` returns what replaces the method. `shows` is the pattern of a structure that then grows."""

    name: str
    owner: type
    method: str
    make: Callable[[Callable[..., Any]], Callable[..., Any]]
    shows: str


def _nothing(intact: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: None


def _never(intact: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: False


def _unlink_segments_only(intact: Callable[..., Any]) -> Callable[..., Any]:
    return lambda log_dir: log_dir.disk.unlink_discarded()


def _note_without_removing(intact: Callable[..., Any]) -> Callable[..., Any]:
    def note(index: PartitionIndex, id_: Any, before: Any, after: Any) -> None:
        if after is not None:
            intact(index, id_, before, after)

    return note


def _expire_no_group(intact: Callable[..., Any]) -> Callable[..., Any]:
    def expire(shard: GroupShard, now: Any) -> Any:
        return intact(GroupShard(shard.settings), now)  # it has none

    return expire


def _remember_each_fetch(intact: Callable[..., Any]) -> Callable[..., Any]:
    def on_fetched(following: Any, offset: int, response: Any) -> None:
        intact(following, offset, response)
        if response.records:
            vars(following).setdefault("fetched", []).append(offset)

    return on_fetched


def _look_at_each_revision(intact: Callable[..., Any]) -> Callable[..., Any]:
    async def tidy(maintenance: Any) -> None:
        for _ in range(maintenance._replicas._metadata.image.revision):
            pass
        await intact(maintenance)

    return tidy


def _remember_each_record(intact: Callable[..., Any]) -> Callable[..., Any]:
    def learn(state: FlowState, record: LogRecord) -> None:
        intact(state, record)
        vars(state).setdefault("seen", set()).add(hash(record.key))

    return learn


ALONE: Final = Leak(
    "a follower remembers each fetch",
    Following,
    "on_fetched",
    _remember_each_fetch,
    "broker, follower: Following.fetched",
)
"""This leak shows in one structure and no other."""

ALONE_IN_MIRROR: Final = Leak(
    "a mirror remembers each copy that its flow has ever filled",
    FlowState,
    "learn",
    _remember_each_record,
    "mirror, *: FlowState.seen",
)
"""This one shows in a structure of the mirror that leads the flow, and of its standby, and in no other."""

LEAKS: Final[Sequence[Leak]] = (
    ALONE,
    ALONE_IN_MIRROR,
    Leak(
        "copies that are gone stay in the flow's table", FlowState, "note_gone", _nothing, f"{FLOW}: keys of mm2-mirror"
    ),
    Leak("producer ids never expire", Producers, "expire", _nothing, "broker, leader: Producers._entries"),
    Leak("deleted partitions stay on disk", LogDir, "remove_deleted", _unlink_segments_only, "outside: files *-delete"),
    Leak(
        "a tick looks at each revision of the metadata",
        Maintenance,
        "_tidy",
        _look_at_each_revision,
        "idle turn: *leaks.py *tidy",
    ),
    Leak("transactional ids never expire", TransactionShard, "_is_over", _never, "*: TransactionShard._records"),
    Leak("committed offsets never expire", GroupShard, "_expire", _expire_no_group, "*: GroupShard._offsets"),
    Leak(
        "the index keeps deleted partitions", PartitionIndex, "_note", _note_without_removing, "controller, standby: *"
    ),
)


@contextmanager
def planted(leaks: Sequence[Leak] = LEAKS) -> Iterator[None]:
    """Plant the leaks in clusters that start within the block."""
    with ExitStack() as stack:
        for leak in leaks:
            intact = getattr(leak.owner, leak.method)
            stack.enter_context(patch.object(leak.owner, leak.method, leak.make(intact)))
        yield


def found(verdict: Verdict) -> list[Leak]:
    """Return the planted leaks that a verdict names."""
    grown = [f"{g.structure.role}: {g.structure.name}" for g in verdict.grown]
    return [leak for leak in LEAKS if any(fnmatch.fnmatchcase(name, leak.shows) for name in grown)]
