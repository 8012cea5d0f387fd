"""`python -m tests.faults.transactions.reader`: librdkafka reads all partitions from their first offsets.

Those whose name begins with `final-` or `pass-` end where the partitions end; any other reads until SIGTERM.

    {"f": "poll", "type": "ok", "partition": ["a", 0], "tags": […]}         in the order of the offsets
    {"f": "read", "type": "ok"}                                            all is read
"""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, TopicPartition
from tests.faults.history import FINAL, HistoryWriter, client_parser
from tests.faults.transactions.client import PARTITIONS

PASS: Final = "pass-"
_AT_ONCE: Final = 2000
_POLL_S: Final = 0.2


def main(arguments: list[str]) -> int:
    parser = client_parser("transactions.reader", __doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--isolation", default="read_committed")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    ends_here = given.process.startswith((FINAL, PASS))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": given.bootstrap,
            "group.id": given.process,
            "isolation.level": given.isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition(*partition, 0) for partition in PARTITIONS])
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    ends: set[tuple[str, int]] = set()
    while not stopping and not (ends_here and len(ends) == len(PARTITIONS)):
        tags = defaultdict[tuple[str, int], list[str]](list)
        messages: list[Any] = consumer.consume(_AT_ONCE, _POLL_S)
        for message in messages:
            partition = message.topic(), message.partition()
            if message.error() is None:
                tags[partition].append(message.value().decode())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ends.add(partition)
        for partition, found in tags.items():
            history.add("ok", "poll", partition=partition, tags=found)
        history.flush()
    consumer.close()
    history.add("ok", "read")
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
