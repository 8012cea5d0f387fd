"""A consumer group on both sides of the network, whose coordinator is killed while it reads.

librdkafka on the host reads and commits; its group's coordinator is killed; it reads on and commits by the other one.
Then the SDK in a container is the group, and begins where the host has committed.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import confluent_kafka
from tests.compose.kafka_sides import INSIDE, OUTSIDE
from tests.compose.project import Project
from tests.hosts.shell import ProofError, say

import ottla
from ottla_core.routing import shard_of

TOPIC: Final = "grouped"
GROUP: Final = "proof-group"
PARTITIONS: Final = 6
RECORDS: Final = 600
"""Each time something is written."""
_LIMIT_S: Final = 60.0

_CLIENT: Final = """
import sys, ottla
bootstrap, topic, group, count = sys.argv[1:4] + [int(sys.argv[4])]
with ottla.Consumer(topic, bootstrap=bootstrap, group=group, auto_offset_reset="earliest", commit="manual",
                    value="str") as consumer:
    values = []
    for record in consumer:
        values.append(int(record.value))
        if len(values) == count:
            break
    consumer.commit()
print(min(values), max(values), len(set(values)))
"""
"""Reads `count` records as the group and commits them; tells their least and greatest value, and how many there are."""


@dataclass
class GroupReport:
    killed: str = ""
    takeover_s: float = 0.0
    """From the order to kill to a commit that the other coordinator has taken; Docker's own second or two is in it."""
    read_outside: int = 0
    read_inside: int = 0


def use_a_group(project: Project, bootstrap: str) -> GroupReport:
    """Raises ProofError where a record is missing or comes twice, or where the group does not go on."""
    report = GroupReport()
    ottla.Admin(bootstrap).topics.create(TOPIC, partitions=PARTITIONS)
    settings = {
        "bootstrap.servers": OUTSIDE,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        consumer.subscribe([TOPIC])
        _write(bootstrap, 0)
        seen = _read(consumer)
        consumer.commit(asynchronous=False)
        report.killed = _owner(bootstrap)
        killed_at = time.monotonic()
        project.kill(report.killed)
        _commit_until_taken(consumer)
        report.takeover_s = round(time.monotonic() - killed_at, 1)
        _write(bootstrap, 1)
        seen += _read(consumer)
        consumer.commit(asynchronous=False)
    report.read_outside = len(seen)
    if sorted(seen) != list(range(2 * RECORDS)):
        raise ProofError(f"the group has read {len(seen)} records, {len(set(seen))} of {2 * RECORDS}")
    say(f"a group has committed, lost {report.killed} and gone on {report.takeover_s} s later")
    _write(bootstrap, 2)
    told = project.python("cli", _CLIENT, INSIDE, TOPIC, GROUP, str(RECORDS)).split()
    if [int(word) for word in told] != [2 * RECORDS, 3 * RECORDS - 1, RECORDS]:
        raise ProofError(f"inside, the group does not go on where it has committed outside: {' '.join(told)}")
    report.read_inside = RECORDS
    say("inside, the group has gone on where it had committed outside")
    return report


def _write(bootstrap: str, turn: int) -> None:
    with ottla.Producer(bootstrap, topic=TOPIC) as producer:
        for n in range(turn * RECORDS, (turn + 1) * RECORDS):
            producer.send(b"%d" % n, partition=n % PARTITIONS)


def _read(consumer: confluent_kafka.Consumer) -> list[int]:
    """RECORDS of them; more where some come twice."""
    values: list[int] = []
    give_up_at = time.monotonic() + _LIMIT_S
    while len(values) < RECORDS:
        if time.monotonic() > give_up_at:
            raise ProofError(f"the group has read {len(values)} of {RECORDS} records in {_LIMIT_S:g} s")
        values += [int(m.value() or b"") for m in consumer.consume(RECORDS, 0.2) if m.error() is None]
    return values


def _owner(bootstrap: str) -> str:
    """Return the coordinator that owns the group's shard."""
    with ottla.Admin(bootstrap) as admin:
        shards = {shard.shard: shard for shard in admin.groups.shards()}
    owner = shards[shard_of(GROUP, len(shards))].coordinator
    if owner is None:
        raise ProofError(f"nobody coordinates {GROUP}")
    return f"group-coordinator-{owner}"


def _commit_until_taken(consumer: confluent_kafka.Consumer) -> None:
    """As applications do: a commit that fails is tried again."""
    began_at, offsets = time.monotonic(), consumer.position(consumer.assignment())
    while not _is_taken(consumer, offsets):
        if time.monotonic() - began_at > _LIMIT_S:
            raise ProofError(f"no commit is taken {_LIMIT_S:g} s after the kill")
        time.sleep(0.1)


def _is_taken(consumer: confluent_kafka.Consumer, offsets: list[confluent_kafka.TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=offsets, asynchronous=False)  # said, for there is nothing new to commit
    except confluent_kafka.KafkaException:
        return False
    return True
