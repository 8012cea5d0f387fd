"""Exactly once: flights go in, totals of each carrier come out, and these are exact however often this is killed.

    ottla up
    python examples/exactly_once.py        # kill -9 it wherever you like, and start it again

The totals that a transaction writes, and how far it has read the flights, become true together. So one that begins is
where the last one was: the group has its offsets, and its totals are a topic themselves. What goes wrong in another
way raises; the answer is the same, to start again.
"""

from __future__ import annotations

import sys
from itertools import islice

import ottla
from ottla_stack.demo import dataset

NAME = "carrier-totals"
"""Of the topic, of the group that counts and of its transactions. One process at a time has it: it fences others."""


def import_flights(count: int | None) -> None:
    """The year's first `count`, or all. These or none: what a killed transaction has written is seen by no reader."""
    with ottla.Admin() as admin:
        admin.topics.create("flights", partitions=3, if_exists="ok")
        admin.topics.create(NAME, partitions=1, config={"cleanup.policy": "compact"}, if_exists="ok")
    with ottla.Producer(topic="flights", transactional_id="flights-import") as producer:
        producer.init_transactions()  # first: an import that was killed is over now
        if not any(True for _ in ottla.read("flights", value="bytes")):
            with producer.transaction() as tx:
                for flight in islice(dataset.flights(), count):
                    tx.send(dataset.as_json(flight), key=flight["carrier"])


def count_flights() -> dict[str, dict[str, int]]:
    """Read on from where the last transaction ended, up to the end; the totals by carrier."""
    with (
        ottla.Producer(topic=NAME, transactional_id=NAME) as producer,
        ottla.Consumer(
            "flights",
            group=NAME,
            group_instance_id=NAME,  # who starts again has its partitions at once
            auto_offset_reset="earliest",
            commit="manual",
            key="str",
            value="json",
            stop="end",
        ) as flights,
    ):
        producer.init_transactions()  # first: what was left open is over when the totals are read
        totals = {str(record.key): record.value for record in ottla.read(NAME, key="str", value="json")}
        for batch in flights.batches(max_records=500):
            changed: dict[str, dict[str, int]] = {}
            for flight in batch:
                carrier = str(flight.key)
                total = changed.get(carrier) or totals.get(carrier) or {"flights": 0, "miles": 0}
                changed[carrier] = {
                    "flights": total["flights"] + 1,
                    "miles": total["miles"] + flight.value["distance"],
                }
            with producer.transaction(flights) as tx:
                for carrier, total in changed.items():
                    tx.send(total, key=carrier)
                tx.commit_offsets(batch)
            totals |= changed
            print(sum(total["flights"] for total in totals.values()), "flights counted", flush=True)
    return totals


if __name__ == "__main__":
    import_flights(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    for carrier, total in sorted(count_flights().items()):
        print(carrier, total["flights"], total["miles"])
