"""`python -m tests.faults.restarts.listings`: lists groups and transactional ids every 100 ms, and counts short lists.

The SDK lists everything or raises an error. librdkafka's listings come from each broker by itself: while a shard moves
from one broker to another it may be in neither's list, as in Kafka. So a listing of librdkafka has to be complete only
if no shard has moved lately.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from confluent_kafka.admin import AdminClient
from tests.faults.history import HistoryWriter, client_parser
from tests.faults.restarts.content import KNOWN
from tests.faults.restarts.tasks import run_all

import ottla
from ottla_core.model import SHARD_TOPICS
from ottla_core.routing import GROUP

PERIOD_S: Final = 0.1
_TIMEOUT_S: Final = 30.0
_KAFKA_S: Final = 3.0
"""The timeout of librdkafka's requests, which wait for a broker that is away."""

_SETTLED_S: Final = 3.0
"""How long it takes until every broker knows the new leader of a shard's partition."""

Names = Collection[str]


def keep_listing(
    name: str, names: Callable[[], Names | None], history: HistoryWriter, stopping: threading.Event
) -> None:
    """List repeatedly, and note how each listing went. `names` returns None if a moved shard may be missing."""
    due_at = time.monotonic()
    while not stopping.wait(max(0.0, due_at - time.monotonic())):
        due_at = max(due_at + PERIOD_S, time.monotonic())
        try:
            listed = names()
        except Exception as error:  # of either client
            history.add("info", "listing", what=name, error=str(error)[:200])
        else:
            missing = [] if listed is None else sorted(KNOWN.difference(listed))
            kind = "info" if listed is None else "fail" if missing else "ok"
            history.add(kind, "listing", what=name, **({"missing": missing} if missing else {}))
        history.flush()


class KafkaGroups:
    """The groups as librdkafka lists them, from every broker."""

    def __init__(self, bootstrap: str) -> None:
        self._admin: Final = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._leaders: dict[int, int] = {}
        self._moved_at = time.monotonic()

    def names(self) -> Names | None:
        """Return the groups, or None if a shard has moved lately or during the call. Raises KafkaException."""
        self._look()
        listed = self._admin.list_consumer_groups(request_timeout=_KAFKA_S).result()
        if listed.errors:
            raise listed.errors[0]
        self._look()
        if time.monotonic() < self._moved_at + _SETTLED_S:
            return None
        return {group.group_id for group in listed.valid}

    def _look(self) -> None:
        topic = SHARD_TOPICS[GROUP]
        found = self._admin.list_topics(topic, timeout=_KAFKA_S).topics[topic]
        leaders = {number: partition.leader for number, partition in found.partitions.items()}
        if leaders != self._leaders:
            self._leaders, self._moved_at = leaders, time.monotonic()


def main(arguments: list[str]) -> int:
    parser = client_parser("restarts.listings", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--kafka", required=True, help="addresses of the Kafka listeners")
    given = parser.parse_args(arguments)
    with ottla.Admin(given.bootstrap, request_timeout=_TIMEOUT_S) as admin:
        listings: dict[str, Callable[[], Names | None]] = {
            "groups": lambda: [group.name for group in admin.groups.list()],
            "transactions": lambda: [transaction.name for transaction in admin.transactions.list()],
            "kafka": KafkaGroups(given.kafka).names,
        }
        tasks = [
            partial(keep_listing, name, names, HistoryWriter(given.history, f"{given.process}-{name}"))
            for name, names in listings.items()
        ]
        return run_all(tasks, HistoryWriter(given.history, given.process))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
