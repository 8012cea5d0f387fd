"""`python -m tests.faults.interrupted.async_copying …`: copies exactly once with asyncio, and its tasks are cancelled.

At any time: while a block begins, in its body, and while it ends. Then the program polls on. The last line says how the
copy differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from contextlib import suppress
from typing import Any

from tests.faults.interrupted.copies import check_copy, stay_behind, topic_of_copy
from tests.faults.interrupted.member import AT_ONCE, FIRST_S, parser, settings
from tests.faults.interrupted.notes import Notes

import ottla.aio

_CANCELLATIONS_EACH = 20
_TRANSACTIONS = 3
"""The most transactions that a task lives through, by the time that one takes."""


async def live(given: argparse.Namespace, notes: Notes, chance: random.Random) -> None:
    """One producer and one member of the group."""
    async with (
        ottla.aio.Producer[Any, Any](
            given.bootstrap, topic=topic_of_copy(given), value="bytes", transactional_id=given.group
        ) as producer,
        ottla.aio.Consumer[Any, Any](given.topic, **{**settings(given), "commit": "manual"}) as consumer,
    ):
        if given.mutant:
            stay_behind(consumer._sync.reader)
        if not await consumer.poll(FIRST_S, max_records=1):
            raise RuntimeError("nothing came: is all of it read?")
        await consumer.seek_to_committed()
        began_at = time.monotonic()
        for _ in range(2):
            began_at = time.monotonic()
            while not await _copied_one(producer, consumer):
                pass
        took_s = time.monotonic() - began_at
        for _ in range(chance.randrange(1, _CANCELLATIONS_EACH)):
            task = asyncio.ensure_future(_copy(producer, consumer))
            how = chance.choice(("cancel", "wait_for"))
            wait_s = chance.uniform(0, _TRANSACTIONS * took_s)
            if how == "cancel":
                await asyncio.sleep(wait_s)
                task.cancel()
                await asyncio.wait([task])
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(task, wait_s)
            notes.interrupts[how] += 1


async def _copy(producer: ottla.aio.Producer[Any, Any], consumer: ottla.aio.Consumer[Any, Any]) -> None:
    """Until it is cancelled."""
    while True:
        with suppress(ottla.TransactionAborted):
            await _copied_one(producer, consumer)


async def _copied_one(producer: ottla.aio.Producer[Any, Any], consumer: ottla.aio.Consumer[Any, Any]) -> bool:
    batch = await consumer.poll(1.0, max_records=AT_ONCE)
    if batch:
        async with producer.transaction(consumer) as tx:
            for record in batch:
                tx.send(b"%d:%d" % (record.partition, record.offset))
            await tx.commit_offsets(batch)
    return bool(batch)


def main(arguments: list[str]) -> int:
    given = parser(__doc__).parse_args(arguments)
    notes, chance = Notes(), random.Random(given.seed)
    while notes.interrupts.total() < given.interrupts:
        asyncio.run(live(given, notes, chance))
    check_copy(given, notes)
    print(json.dumps(notes.told()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
