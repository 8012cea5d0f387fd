"""librdkafka's producer in transactions: what it hears, and whether it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse
from tests.compat.differential.story import Facts, Side, Story
from tests.compat.rows import rows_in
from waiting import wait_until

_LIMIT_S: Final = 60.0


def producer(side: Side, txn: str, **settings: Any) -> Producer:
    given = {"bootstrap.servers": side.bootstrap, "transactional.id": txn, "linger.ms": 0, **settings}
    # Without a callback of its own for errors, flush raises a fatal one in the middle of another callback.
    made = Producer({**given, "error_cb": lambda error: None})
    made.init_transactions(_LIMIT_S)
    return made


def outcome(act: Callable[[], object]) -> str:
    """The error's name, and what the client may do after it."""
    try:
        act()
    except KafkaException as raised:
        return words(raised.args[0])
    except SystemError as raised:  # a fatal error that came while a record's callback ran
        if not isinstance(raised.__cause__, KafkaException):
            raise
        return words(raised.__cause__.args[0])
    return "well"


def words(error: KafkaError) -> str:
    after = [word for word, holds in (("fatal", error.fatal()), ("abort", error.txn_requires_abort())) if holds]
    return " ".join([error.name(), *after])


def deliver(made: Producer, topic: str, value: bytes, partition: int = 0) -> str:
    """What became of one record."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: confluent_kafka.Message) -> None:
        errors.append(error)

    def send() -> None:
        made.produce(topic, value, partition=partition, on_delivery=delivered)
        made.flush(_LIMIT_S)

    if (sent := outcome(send)) != "well":
        return sent
    return "delivered" if not errors or errors[0] is None else words(errors[0])


def next_one(made: Producer, topic: str) -> str:
    """Abort, and commit another transaction: whether the producer goes on."""

    def go_on() -> None:
        made.abort_transaction(_LIMIT_S)
        made.begin_transaction()
        made.produce(topic, b"next", partition=0)
        made.commit_transaction(_LIMIT_S)

    return outcome(go_on)


def state(side: Side, txn: str) -> str:
    with side.wire() as wire:
        (found,) = wire.ask(
            DescribeTransactionsRequest(transactional_ids=[txn]), 0, DescribeTransactionsResponse
        ).transaction_states
    return str(found.transaction_state)


def committed(side: Side, topic: str) -> str:
    return repr([row.value for row in rows_in(side.bootstrap, topic)])


def _fenced(side: Side) -> Facts:
    """A second producer takes the id over while the first one is in a transaction."""
    topic, txn = side.topic(2), side.fresh("txn")
    first = producer(side, txn)
    first.begin_transaction()
    facts = {"first record": deliver(first, topic, b"first")}
    second = producer(side, txn)
    facts["the fenced one's next record"] = deliver(first, topic, b"late")
    facts["its commit"] = outcome(lambda: first.commit_transaction(_LIMIT_S))
    facts["it goes on"] = next_one(first, topic)
    second.begin_transaction()
    facts["the second one's record"] = deliver(second, topic, b"second")
    facts["its own commit"] = outcome(lambda: second.commit_transaction(_LIMIT_S))
    wait_until(lambda: state(side, txn) == "CompleteCommit")  # else its markers may still be on their way
    return facts | {"committed": committed(side, topic)}


def _timed_out(side: Side) -> Facts:
    """The coordinator aborts a transaction whose time is over; the producer writes on."""
    facts: Facts = {}
    for partition, where in enumerate(("where it had written", "elsewhere")):
        topic, txn = side.topic(2), side.fresh("txn")
        made = producer(side, txn, **{"transaction.timeout.ms": 1000})
        made.begin_transaction()
        assert deliver(made, topic, b"early") == "delivered"
        wait_until(lambda txn=txn: state(side, txn) == "CompleteAbort")
        facts[f"late record {where}"] = deliver(made, topic, b"late", partition)
        facts[f"it goes on, {where}"] = next_one(made, topic)
        facts[f"committed, {where}"] = committed(side, topic)
    return facts


def _zombie(side: Side) -> Facts:
    """A producer without an open transaction begins one after another has taken its id."""
    topic, txn = side.topic(), side.fresh("txn")
    first = producer(side, txn)
    second = producer(side, txn)
    first.begin_transaction()
    facts = {"its record": deliver(first, topic, b"zombie")}
    facts["it goes on"] = next_one(first, topic)
    second.begin_transaction()
    facts["the second one's record"] = deliver(second, topic, b"second")
    facts["its commit"] = outcome(lambda: second.commit_transaction(_LIMIT_S))
    return facts | {"committed": committed(side, topic)}


STORIES: Final = (
    Story("librdkafka, fenced", _fenced),
    Story("librdkafka, timed out", _timed_out),
    Story("librdkafka, zombie", _zombie),
)
