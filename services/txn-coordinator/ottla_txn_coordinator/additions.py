"""Additions to one transaction that begin in one turn of the loop are one decision.

Each decision writes all partitions that the transaction has by then, and a broker makes a call for each of them. The
calls of one message of gathered calls begin in one turn, and so do the items of one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Final, NamedTuple

from ottla_core.rpc.context import RequestContext
from ottla_proto import txn_pb2 as pb

AddTogether = Callable[[Sequence[pb.PartitionsToAdd], RequestContext], Awaitable[Sequence[pb.PartitionsAdded]]]
"""Adds items that differ only in their partitions, and returns a response for each of them in their order."""


class _Waiting(NamedTuple):
    item: pb.PartitionsToAdd
    response: asyncio.Future[pb.PartitionsAdded]


class Additions:
    def __init__(self, add: AddTogether) -> None:
        self._add: Final = add
        self._waiting: Final[dict[Hashable, list[_Waiting]]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def add(self, item: pb.PartitionsToAdd, context: RequestContext) -> pb.PartitionsAdded:
        """Return the response to the item, which is carried out even if the caller is cancelled."""
        key = (_merge_key(item), context.client_id, context.client_host)
        loop = asyncio.get_running_loop()
        together = self._waiting.get(key)
        if together is None:
            together = self._waiting[key] = []
            loop.call_soon(self._begin, key, context)  # after everything that is ready to run in this turn
        response: asyncio.Future[pb.PartitionsAdded] = loop.create_future()
        together.append(_Waiting(item, response))
        return await response

    def _begin(self, key: Hashable, context: RequestContext) -> None:
        task = asyncio.create_task(self._carry_out(self._waiting.pop(key), context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, together: Sequence[_Waiting], context: RequestContext) -> None:
        try:
            added = await self._add([waiting.item for waiting in together], context)
            done = list(zip(together, added, strict=True))
        except Exception as error:  # even for a bug, every caller has to be told
            for waiting in together:
                if not waiting.response.done():
                    waiting.response.set_exception(error)
            return
        for waiting, response in done:
            if not waiting.response.done():
                waiting.response.set_result(response)


def _merge_key(item: pb.PartitionsToAdd) -> Hashable:
    """Return a key that is equal for items that differ only in their partitions."""
    epoch = item.coordinator_epoch if item.HasField("coordinator_epoch") else None
    producer = item.producer
    return item.transactional_id, producer.id, producer.epoch, item.verify_only, item.transaction_version, epoch
