"""`python -m tests.faults.interrupted.asynchronous …`: a member of a group in asyncio whose tasks are cancelled.

By `Task.cancel`, `asyncio.timeout` and `asyncio.wait_for`; half of them are aimed at what the consumer's thread has
gathered while the task that asked for it is gone. In between it commits, or asks where it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Awaitable
from contextlib import suppress
from threading import Event
from typing import Any, Final

from tests.faults.interrupted.aim import is_in_hand, move_first
from tests.faults.interrupted.member import AIMED, AT_ONCE, FIRST_S, MOST_S, parser, settings
from tests.faults.interrupted.notes import Notes

import ottla.aio
from ottla.consumer.batch import Batch

Consumer = ottla.aio.Consumer[Any, Any]


class Aim:
    """Cancels whoever waits for a gathering when that has its records, before they are told of."""

    def __init__(self, consumer: Consumer) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.hit = False
        self._loop: Final = asyncio.get_running_loop()
        reader = consumer._sync.reader
        gather = reader.gather

        def aimed(limit: int, wait_first: float, wait_more: float) -> Batch[Any, Any]:
            batch = gather(limit, wait_first, wait_more)
            task = self.task
            if batch and task is not None:
                self.task = None
                done = Event()
                self._loop.call_soon_threadsafe(lambda: (task.cancel(), done.set()))
                self.hit = done.wait(1.0) and is_in_hand(reader)
            return batch

        reader.gather = aimed


async def live(given: argparse.Namespace, notes: Notes, chance: random.Random) -> None:
    """One member of the group; a task that is cancelled ends it."""
    async with ottla.aio.Consumer(given.topic, **settings(given)) as consumer:
        if given.mutant:
            move_first(consumer._sync.reader)
        if not (batch := await consumer.poll(FIRST_S)):
            raise RuntimeError("nothing came: is all of it read?")
        notes.on_batch(batch)
        aim = Aim(consumer)
        for _ in range(chance.randrange(1, 6)):
            await _cancelled(consumer, notes, chance, aim)
            match chance.randrange(3):
                case 0:
                    await consumer.commit()
                case 1:
                    for partition in await consumer.assignment():
                        notes.on_position(partition.partition, await consumer.position(partition))


async def _cancelled(consumer: Consumer, notes: Notes, chance: random.Random, aim: Aim) -> None:
    """Reads until it is cancelled."""
    task = asyncio.ensure_future(_read(consumer, notes, chance.randrange(3)))
    how = chance.choice(("cancel", "timeout", "wait_for"))
    await asyncio.sleep(chance.uniform(0, MOST_S))
    aim.hit, wait_s = False, chance.uniform(0, MOST_S)
    if chance.random() < AIMED:
        aim.task, how = task, "cancel"
        await asyncio.wait([task])
    elif how == "wait_for":
        await _ended(asyncio.wait_for(task, wait_s))
    elif how == "timeout":
        async with asyncio.timeout(wait_s):
            await _ended(task)
    else:
        await asyncio.sleep(wait_s)
        task.cancel()
        await asyncio.wait([task])
    aim.task = None
    notes.interrupts[how] += 1
    notes.in_hand += aim.hit


async def _ended(awaited: Awaitable[object]) -> None:
    with suppress(TimeoutError, asyncio.CancelledError):
        await awaited


async def _read(consumer: Consumer, notes: Notes, how: int) -> None:
    while True:
        if how == 0:
            notes.on_batch(await consumer.poll(1.0))
        elif how == 1:
            async for batch in consumer.batches(AT_ONCE, 0.0):
                notes.on_batch(batch)
        else:
            async for record in consumer:
                notes.on_record(record.partition, record.offset)


def main(arguments: list[str]) -> int:
    given = parser(__doc__).parse_args(arguments)
    notes, chance = Notes(), random.Random(given.seed)
    while notes.interrupts.total() < given.interrupts and not (given.mutant and notes.skipped):
        asyncio.run(live(given, notes, chance))
    print(json.dumps(notes.told()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
