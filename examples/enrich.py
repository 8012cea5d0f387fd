"""A stream joined with a table: each order gets the price that its article has at the moment.

    ottla up
    python examples/enrich.py

`prices` is a compacted topic. `ottla.Table` keeps its latest values in memory and follows it in the background, so a
lookup costs no request.
"""

from __future__ import annotations

import ottla


def write_prices_and_orders() -> ottla.RecordMetadata:
    """Write three prices and two orders. Return the place of the last price."""
    with ottla.Admin() as admin:
        admin.topics.create("prices", partitions=1, config={"cleanup.policy": "compact"}, if_exists="ok")
        admin.topics.create("orders", partitions=1, if_exists="ok")
        admin.topics.create("priced-orders", partitions=1, if_exists="ok")
    with ottla.Producer() as producer:
        producer.send({"cents": 30}, topic="prices", key="apple")
        producer.send({"cents": 45}, topic="prices", key="pear")
        last = producer.send({"cents": 35}, topic="prices", key="apple").result()
        for article, count in (("apple", 4), ("pear", 2)):
            producer.send({"article": article, "count": count}, topic="orders", key=article)
    return last


def enrich(last: ottla.RecordMetadata) -> None:
    with (
        ottla.Table("prices", key="str", value="json") as prices,
        ottla.Consumer("orders", start="earliest", stop="end", key="str", value="json") as orders,
        ottla.Producer(topic="priced-orders") as producer,
    ):
        prices.wait_for(last.partition, last.offset)
        for order in orders:
            cents = prices[order.value["article"]]["cents"] * order.value["count"]
            producer.send({**order.value, "cents": cents}, key=order.key)


if __name__ == "__main__":
    enrich(write_prices_and_orders())
    for record in ottla.read("priced-orders", value="json"):
        print(record.value["article"], record.value["cents"])
