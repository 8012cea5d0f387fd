"""Exactly once: read flights and write totals per carrier, which are exact however often this program is killed.

    ottla up
    python -m examples.exactly_once        # kill -9 it at any moment, and start it again

Each transaction writes new totals and commits the offsets up to which it has read the flights. Both count together or
not at all. So a run continues where the last committed transaction ended: it takes the offsets from the group and the
totals from their topic. Any other failure raises an error; start the program again then, too.
"""

from __future__ import annotations

import sys
from itertools import islice

from examples.demo import dataset

import ottla

NAME = "carrier-totals"
"""Names the topic of totals, the consumer group and the transactional id. Only one process at a time can use it: a new
process fences the older one."""


def import_flights(count: int | None) -> None:
    """Import the year's first `count` flights, or all, in one transaction: if it is killed, no reader sees any."""
    with ottla.Admin() as admin:
        admin.topics.create("flights", partitions=3, if_exists="ok")
        admin.topics.create(NAME, partitions=1, config={"cleanup.policy": "compact"}, if_exists="ok")
    with ottla.Producer(topic="flights", transactional_id="flights-import") as producer:
        producer.init_transactions()  # first: this ends a transaction that a killed import left open
        if not any(True for _ in ottla.read("flights", value="bytes")):
            with producer.transaction() as tx:
                for flight in islice(dataset.flights(), count):
                    tx.send(dataset.as_json(flight), key=flight["carrier"])


def count_flights() -> dict[str, dict[str, int]]:
    """Read from where the last transaction ended up to the end of the log, and return the totals by carrier."""
    with (
        ottla.Producer(topic=NAME, transactional_id=NAME) as producer,
        ottla.Consumer(
            "flights",
            group=NAME,
            group_instance_id=NAME,  # a process that restarts gets its partitions back at once
            auto_offset_reset="earliest",
            commit="manual",
            key="str",
            value="json",
            stop="end",
        ) as flights,
    ):
        producer.init_transactions()  # first: this ends a transaction that was left open, before the totals are read
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
