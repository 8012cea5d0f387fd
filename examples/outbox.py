"""A service with an outbox: what is in its database is in the topic exactly once, and what follows from it, too.

    ottla up
    python examples/outbox.py        # kill it at any moment, and start it again

The service writes an order and its event in one transaction of the database. `relay` sends the events that the topic
does not have yet, in their order. An exactly-once app makes an invoice of each: it commits the invoices and its offsets
in one transaction, so a crash repeats neither.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from typing import Any

import ottla

ORDERS = 100
app = ottla.App("invoicing", exactly_once=True, consumer={"auto_offset_reset": "earliest"})


def order(database: sqlite3.Connection, number: int) -> None:
    """Take an order: the row and its event are written together, or not at all."""
    with database:
        database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (number, 9.5))
        event = json.dumps({"order": number, "total": 9.5})
        database.execute("INSERT OR IGNORE INTO outbox VALUES (?, ?)", (number, event))


def relay(database: sqlite3.Connection) -> None:
    """Send what the topic lacks. The transactional id fences a relay that still runs elsewhere."""
    with ottla.Producer(topic="ordered", transactional_id="outbox-relay", value="str", key="str") as producer:
        producer.init_transactions()  # first: this ends a transaction that a killed relay left open
        sent = max((record.value["order"] for record in ottla.read("ordered", value="json")), default=0)
        rows = database.execute("SELECT number, event FROM outbox WHERE number > ? ORDER BY number", (sent,)).fetchall()
        with producer.transaction() as transaction:
            for number, event in rows:
                transaction.send(event, key=str(number))


@app.on("ordered", value="json")
def invoice(event: dict[str, Any], context: ottla.Context) -> None:
    context.send({"invoice": event["order"], "due": event["total"]}, topic="invoices", key=context.key)
    if event["order"] == ORDERS:
        app.stop()


def invoices() -> list[int]:
    return [record.value["invoice"] for record in ottla.read("invoices", value="json")]


if __name__ == "__main__":
    with ottla.Admin() as admin:
        for topic in ("ordered", "invoices"):
            admin.topics.create(topic, partitions=1, if_exists="ok")
    database = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else "orders.db")
    database.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, total REAL)")
    database.execute("CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY, event TEXT)")
    for number in range(1, ORDERS + 1):
        order(database, number)
    relay(database)
    if len(invoices()) < ORDERS:
        app.run()
    print(len(invoices()), "invoices,", len(set(invoices())), "different ones")
