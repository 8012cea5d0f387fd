"""`python -m tests.faults.interrupted.copying …`: copies exactly once, by the documented loop, and is interrupted.

In a poll, and anywhere in a transaction block: its beginning, its body and its end. Some interrupts it catches, and
either ends the transaction, as docs/use/transactions.md says, or polls on. With the others it leaves the `with` blocks,
and begins again with another producer of the id. The last line says how the copy differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from tests.faults.interrupted.copies import check_copy, stay_behind, topic_of_copy
from tests.faults.interrupted.member import AT_ONCE, FIRST_S, parser, settings
from tests.faults.interrupted.notes import Notes
from tests.faults.interrupted.shooter import INTERRUPTS, Shooter

import ottla

_TRANSACTIONS = 3
_INTERRUPTS_EACH = 4

Consumer = ottla.Consumer[Any, Any]
Producer = ottla.Producer[Any, Any]


def main(arguments: list[str]) -> int:
    given = parser(__doc__).parse_args(arguments)
    notes, shooter = Notes(), Shooter(given.seed, __file__)
    while notes.interrupts.total() < given.interrupts:
        try:
            _live(given, notes, shooter)
        except INTERRUPTS as error:
            notes.interrupts[type(error).__name__] += 1
    check_copy(given, notes)
    print(json.dumps(notes.told()), flush=True)
    return 0


def _live(given: argparse.Namespace, notes: Notes, shooter: Shooter) -> None:
    producer: Producer
    consumer: Consumer
    with (
        ottla.Producer(
            given.bootstrap, topic=topic_of_copy(given), value="bytes", transactional_id=given.group
        ) as producer,
        ottla.Consumer(given.topic, **{**settings(given), "commit": "manual"}) as consumer,
    ):
        if given.mutant:
            stay_behind(consumer.reader)
        producer.init_transactions()
        took_s = _copied_in_peace(producer, consumer)
        for _ in range(shooter.random.randrange(1, _INTERRUPTS_EACH)):
            try:
                _copy(producer, consumer, shooter, took_s)
            except INTERRUPTS as error:
                notes.interrupts[type(error).__name__] += 1
                if shooter.random.random() < 0.5:
                    settle(producer)
        _copy(producer, consumer, shooter, took_s)


def _copied_in_peace(producer: Producer, consumer: Consumer) -> float:
    """Copy some records without an interrupt. Return how many seconds the last of them took."""
    if not consumer.poll(FIRST_S, max_records=1):
        raise RuntimeError("nothing came: is all of it read?")
    consumer.seek_to_committed()
    began_at = time.monotonic()
    for _ in range(2):
        began_at = time.monotonic()
        while not (batch := consumer.poll(1.0, max_records=AT_ONCE)):
            pass
        with producer.transaction(consumer) as tx:
            _work(tx, batch)
    return time.monotonic() - began_at


def _work(tx: Any, batch: Any) -> None:
    for record in batch:
        tx.send(b"%d:%d" % (record.partition, record.offset))
    tx.commit_offsets(batch)


def _copy(producer: Producer, consumer: Consumer, shooter: Shooter, took_s: float) -> None:
    """Until it is interrupted, within the time that a few transactions take."""
    shooter.shoot(within_s=_TRANSACTIONS * took_s)
    try:
        while True:
            batch = consumer.poll(1.0, max_records=AT_ONCE)
            if not batch:
                continue
            try:
                block = producer.transaction(consumer)
            except INTERRUPTS:
                consumer.seek_to_committed()  # there is no block yet that could see to it
                raise
            try:
                with block as tx:
                    _work(tx, batch)
            except ottla.TransactionAborted:
                continue
    finally:
        shooter.over()


def settle(producer: Producer) -> None:
    """End the transaction: abort it, or ask for its commit again until the outcome is known."""
    for end in (producer.abort_transaction, producer.commit_transaction) * 20:
        try:
            end()
        except ottla.OttlaError:
            continue
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
