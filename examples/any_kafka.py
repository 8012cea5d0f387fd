"""One program for every Kafka: it produces, consumes in a group, commits a transaction, and looks up a table.

    python examples/any_kafka.py localhost:9092      # a broker of ottla, or of Apache Kafka 3.3 or later

Each payment is added to its account's balance exactly once: the new balances and the group's offsets are committed in
one transaction. `docs/use/any-kafka.md` says what else works with any Kafka, and how to log in.
"""

from __future__ import annotations

import sys

import ottla

PAYMENTS = [("ada", 30), ("grace", 25), ("ada", -10), ("grace", 15)]


def create_topics(bootstrap: str) -> None:
    with ottla.Admin(bootstrap) as admin:
        admin.topics.create("payments", partitions=3, if_exists="ok")
        admin.topics.create("balances", partitions=3, config={"cleanup.policy": "compact"}, if_exists="ok")


def pay(bootstrap: str) -> None:
    with ottla.Producer(bootstrap, topic="payments") as producer:
        producer.send_many(PAYMENTS)


def book(bootstrap: str) -> None:
    """Add to the balances every payment that the group `bank` has not booked yet."""
    with (
        ottla.Producer(bootstrap, topic="balances", transactional_id="bank") as producer,
        ottla.Consumer(
            "payments",
            bootstrap=bootstrap,
            group="bank",
            auto_offset_reset="earliest",
            commit="manual",
            stop="end",
            key="str",
            value="json",
        ) as payments,
        ottla.Table("balances", bootstrap=bootstrap, key="str", value="json") as table,
    ):
        producer.init_transactions()  # first: it ends a transaction that a killed run has left open
        table.wait_until_caught_up()
        balances = dict(table)
        for batch in payments.batches():
            for payment in batch:
                balances[payment.key] = balances.get(payment.key, 0) + payment.value
            with producer.transaction(payments) as transaction:
                for account in {payment.key for payment in batch}:
                    transaction.send(balances[account], key=account)
                transaction.commit_offsets(batch)


def show(bootstrap: str) -> None:
    with ottla.Table("balances", bootstrap=bootstrap, key="str", value="json") as balances:
        balances.wait_until_caught_up()
        for account in sorted(balances):
            print(account, balances[account])
    with ottla.Admin(bootstrap) as admin:
        print("not booked:", admin.groups.lag("bank").records)


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    create_topics(address)
    pay(address)
    book(address)
    show(address)
