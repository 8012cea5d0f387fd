"""A flow's offset syncs and checkpoints are put in Redis as well, for applications that look them up at failover.

The leader writes. Each transaction leaves the writer's mark: a name and a number that counts up. It only adds changes
if the mark of the one before is still in Redis. If not, another mirror has led, or Redis is empty or in an earlier
state, and everything is replaced. `ottla.mirror.redis_offsets` says how keys are named.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from ottla.mirror.redis_offsets import RedisKeys, member_of, open_redis, redis_errors
from ottla_mirror.chore import Chore
from ottla_mirror.clusters.admin import CALL_S
from ottla_mirror.groups.checkpoints import Checkpoints
from ottla_mirror.machines.flows import FlowSettings
from ottla_mirror.machines.topic_names import TopicNames
from ottla_mirror.syncing.flow_state import FlowState
from ottla_mirror.syncing.offset_syncs import OffsetSyncs

if TYPE_CHECKING:
    from redis.client import Pipeline

_STEP_S: Final = 0.5
_REDIS_S: Final = 2.0
_CURRENT_MS: Final = 5_000
"""A mirror's offsets in Redis count as current for this long after the mirror last wrote."""

_MOST: Final = 10_000
"""A transaction has at most this many stretches and checkpoints, besides those of its last partition: a few MB."""


class RedisMap(Chore):
    """While this mirror leads, Redis has what was synced half a second before."""

    def __init__(
        self,
        url: str,
        flow: FlowSettings,
        names: TopicNames,
        syncs: OffsetSyncs,
        checkpoints: Checkpoints,
        state: FlowState,
    ) -> None:
        """Prepare the map. Raises ConfigError if the package redis is not installed."""
        super().__init__(f"{flow.name}: Redis does not get its offsets at the moment")
        self._redis: Final = open_redis(url, _REDIS_S)
        self._keys: Final = RedisKeys(flow.name)
        self._names: Final = names
        self._syncs: Final = syncs
        self._checkpoints: Final = checkpoints
        self._state: Final = state
        self._writer: Final = secrets.token_hex(8)
        self._number = 0
        self._mark = ""  # that of the last transaction, if it surely succeeded

    def work(self) -> None:
        is_left = False
        try:
            while not self.stopping.wait(0.0 if is_left else _STEP_S):
                is_left = self._state.leads and self.step()
                self.went_well()
        finally:
            self._redis.close()

    def step(self) -> bool:
        """Write what has changed in one transaction, and tell whether more is left. Raises errors of Redis and the
        target."""
        with redis_errors(), self._redis.pipeline() as pipeline:
            pipeline.watch(self._keys.writer)  # type: ignore[no-untyped-call]  # redis has no types for it
            former: Any = pipeline.get(self._keys.writer)
            replaced = [] if former == self._mark else list(self._redis.scan_iter(self._keys.pattern, count=1000))
            # This comes after the watch, so that nothing older replaces what another mirror has written.
            self._syncs.catch_up(CALL_S)
            self._checkpoints.catch_up(CALL_S)
            pipeline.multi()
            if former != self._mark:
                pipeline.delete(self._keys.current, *replaced)
                self._syncs.change_all()
                self._checkpoints.change_all()
            self._mark = ""  # what is taken from now on is lost if this fails
            room = self._write_checkpoints(pipeline, self._write_stretches(pipeline, _MOST))
            self._number += 1
            mark = f"{self._writer}:{self._number}"
            pipeline.set(self._keys.writer, mark)
            if room > 0:
                pipeline.set(self._keys.current, 1, px=_CURRENT_MS)
            pipeline.execute()
        self._mark = mark
        return room <= 0

    def _write_stretches(self, pipeline: Pipeline, room: int) -> int:
        """Write changes, and return how much room is left."""
        while room > 0 and (changed := self._syncs.take_changed()) is not None:
            source, first, stretches = changed
            copy = self._names.target_of(source.topic)
            if copy is not None:
                key = self._keys.offsets(*source)
                pipeline.hset(self._keys.copies, source.topic, copy)
                pipeline.zremrangebyscore(key, first, "+inf")
                if stretches:
                    pipeline.zadd(key, {member_of(*stretch): stretch.source for stretch in stretches})
            room -= 1 + len(stretches)
        return room

    def _write_checkpoints(self, pipeline: Pipeline, room: int) -> int:
        """Write changes, and return how much room is left."""
        while room > 0 and (changed := self._checkpoints.take_changed()) is not None:
            field = f"{changed.copy.topic}:{changed.copy.partition}"
            pipeline.hset(self._keys.group(changed.group), field, str(changed.offset))
            room -= 1
        return room
