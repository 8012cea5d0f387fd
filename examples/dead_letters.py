"""Retries and dead letters: a handler that fails is tried again, and a record that keeps failing is set aside.

    ottla up
    python examples/dead_letters.py

The app bills orders. An order without a total fails three times, and becomes a dead letter: its key, value and headers
unchanged, with the reason in new headers. Afterwards the dead letters are mended and sent back to where they came from.
"""

from __future__ import annotations

import json
from typing import Any

import ottla

ORDERS: list[dict[str, Any]] = [{"id": 1, "total": 9.5}, {"id": 2}, {"id": 3, "total": 4.0}]
billed: set[int] = set()
app = ottla.App("billing", consumer={"auto_offset_reset": "earliest"})


@app.on("orders", value="json", retries=2, backoff=0.1, dead_letter="orders.dead")
async def bill(order: dict[str, Any], context: ottla.Context) -> None:
    await context.send({"id": order["id"], "due": order["total"]}, topic="bills", key=context.key)
    print(f"billed {order['id']}", flush=True)


@app.on("orders.dead", group="clerk", value="bytes")
def mend(value: bytes, context: ottla.Context) -> None:
    """Send a dead letter back with the total that it lacked, which a person has looked up."""
    attempts = (context.record.header("ottla.attempts") or b"").decode()
    print(f"dead letter after {attempts} attempts", flush=True)
    context.send({**json.loads(value), "total": 7.0}, topic="orders", key=context.key)


@app.on("bills", group="printer", value="json")
def stop_at_the_last(bill: dict[str, Any]) -> None:
    billed.add(bill["id"])
    if len(billed) == len(ORDERS):
        app.stop()


if __name__ == "__main__":
    with ottla.Admin() as admin:
        for topic in ("orders", "orders.dead", "bills"):
            admin.topics.create(topic, partitions=1, if_exists="ok")
    with ottla.Producer(topic="orders") as producer:
        for order in ORDERS:
            producer.send(order, key="eu")
    app.run()
