"""The shards of one coordinator process, as its service sees them. `runtime.OwnedShards` implements it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Decide, FromMemory, Recalled, S
from ottla_proto.common_pb2 import ShardNumbers, ShardsResponse, ShardStanding


@dataclass(frozen=True, slots=True)
class OwnedShardStatus(Generic[S]):
    """One shard: for how long it has been here, up to where its log was read and written, and if it is not served,
    why."""

    shard: int
    phase: Phase
    for_s: float
    next_offset: int
    trouble: str
    state: S

    @property
    def is_served(self) -> bool:
        return self.phase is Phase.SERVING


def shards_response(statuses: Iterable[OwnedShardStatus[Any]], node_id: int) -> ShardsResponse:
    """Return the shards in the form of the coordinators' contracts. `node_id` is the instance's. States count what is
    `unreadable`."""
    return ShardsResponse(
        shards=[
            ShardStanding(
                shard=status.shard,
                phase=status.phase.value,
                for_ms=int(status.for_s * 1000),
                next_offset=status.next_offset,
                trouble=status.trouble,
                unreadable=status.state.unreadable,
                coordinator=node_id,
            )
            for status in statuses
        ]
    )


def owned_among(shards: Shards[Any], named: ShardNumbers | None) -> Sequence[int]:
    """Return the owned shards among those that a request names, or all owned shards if it names none."""
    owned = shards.owned()
    if named is None:
        return owned
    numbers = set(named.numbers)
    return [shard for shard in owned if shard in numbers]


class Shards(Protocol[S]):
    async def ask(
        self,
        key: str,
        decide: Decide[S],
        *,
        timeout: float,
        without_confirmation: bool = False,
        size_bytes: int = 0,
    ) -> Any:
        """Decide in the shard of `key`, and return the response once it is durable. The request holds `size_bytes`.
        `without_confirmation` is as in ShardRequest.

        Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS or COORDINATOR_NOT_AVAILABLE, after which the caller asks
        again, maybe elsewhere, because it may have been done. Raises REQUEST_TIMED_OUT, and what the decision, or a log
        that surely has not taken it, raises.
        """
        ...

    def recall(self, key: str, decide: FromMemory[S]) -> Recalled | None:
        """Return what the shard of `key` answers from memory, or None for what has to be asked. The answer is in the
        log."""
        ...

    async def ask_shard(
        self, shard: int, decide: Decide[S], *, timeout: float, without_confirmation: bool = False, size_bytes: int = 0
    ) -> Any: ...

    def begin(
        self,
        shard: int,
        decide: Decide[S],
        *,
        timeout: float,
        without_confirmation: bool = False,
        at_leisure: bool = False,
        size_bytes: int = 0,
    ) -> asyncio.Future[Any]:
        """Return the response to come, which raises what `ask` does. A caller that no longer waits for it cancels it.

        `at_leisure` says that it waits a while for others to share an append with.
        """
        ...

    def owned(self) -> Sequence[int]:
        """Return the shards that are served, or will be when they are loaded."""
        ...

    def epoch(self, shard: int) -> int:
        """Return the epoch under which the shard is owned. Raises NOT_COORDINATOR."""
        ...

    def shard_of(self, key: str) -> int:
        """Return the shard of a key. Raises COORDINATOR_NOT_AVAILABLE before there are any shards."""
        ...

    def statuses(self) -> Sequence[OwnedShardStatus[S]]:
        """Return the status of each shard, by its number. From any thread."""
        ...

    def limit(self, limits: ShardLimits) -> None:
        """Set the limits from now on. Requests that wait already keep their deadlines."""
        ...
