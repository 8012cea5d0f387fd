"""`python -m tests.faults.groups.kafka_members`: librdkafka's consumers as members of a group, until SIGTERM.

Unchanged clients over the Kafka listener. They tell nobody their generation, so their commits carry none.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition
from tests.faults.groups.notes import GroupNotes
from tests.faults.history import HistoryWriter, client_parser

_POLL_S: Final = 0.25
_ASK_S: Final = 5.0


class KafkaMember:
    def __init__(self, given: argparse.Namespace, notes: GroupNotes, chance: random.Random) -> None:
        self._given: Final = given
        self._notes: Final = notes
        self._random: Final = chance
        self.stopping = False
        self.calm = False
        self.thread: Final = threading.Thread(target=self._run, name="librdkafka")

    def _run(self) -> None:
        while not self.stopping:
            self._be_a_member()

    def _be_a_member(self) -> None:
        given = self._given
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": given.bootstrap,
                "group.id": given.group,
                "client.id": given.process,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "max.poll.interval.ms": 8000,
                "partition.assignment.strategy": "range",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
            }
        )
        consumer.subscribe([given.topic], on_lost=self._on_lost)
        churn_s = given.churn
        ends_at = time.monotonic() + self._random.expovariate(1 / churn_s) if churn_s else float("inf")
        while not self.stopping and (self.calm or time.monotonic() < ends_at):
            consumer.poll(_POLL_S)
            if mine := consumer.assignment():
                self._commit(consumer, mine)
                self._fetch(consumer, mine)
        consumer.close()

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        if not self._given.churn:
            self._notes.told("kicked", self._given.group, f"librdkafka lost {len(partitions)} partitions")

    def _commit(self, consumer: Any, mine: list[Any]) -> None:
        offsets = {each.partition: self._notes.fresh_value() for each in mine}
        number = self._notes.committing(self._given.group, self._given.process, None, offsets)
        try:
            done = consumer.commit(
                offsets=[TopicPartition(self._given.topic, p, o) for p, o in offsets.items()], asynchronous=False
            )
            errors = [each.error for each in done if each.error is not None]
        except confluent_kafka.KafkaException as error:
            errors = [error]
        if errors:
            self._notes.not_committed(number, self._given.group, errors[0], refused=False)
        else:
            self._notes.committed(number, self._given.group)

    def _fetch(self, consumer: Any, mine: list[Any]) -> None:
        asked_ns = time.monotonic_ns()
        try:
            told = consumer.committed([TopicPartition(each.topic, each.partition) for each in mine], timeout=_ASK_S)
        except confluent_kafka.KafkaException:
            return
        offsets = {each.partition: max(each.offset, -1) for each in told if each.error is None}
        self._notes.fetched(self._given.group, offsets, asked_ns)


def main(arguments: list[str]) -> int:
    parser = client_parser("groups.kafka_members", __doc__)
    parser.add_argument("--number", type=int, required=True, help="another for every process that commits, below 64")
    parser.add_argument("--bootstrap", required=True, help="of Kafka's protocol")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument("--churn", type=float, default=0.0, help="seconds that a member stays; 0: for ever")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)
    notes = GroupNotes(history, given.number)
    members = [KafkaMember(given, notes, random.Random(f"{given.seed}-{n}")) for n in range(given.members)]
    wanted = {signal.SIGTERM, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)  # before there are threads, or one of them would be ended by it
    for member in members:
        member.thread.start()
    while signal.sigwait(wanted) == signal.SIGUSR1:
        for member in members:
            member.calm = True
    for member in members:
        member.stopping = True
    for member in members:
        member.thread.join()
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
