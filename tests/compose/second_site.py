"""The profile `mirror`: a group reads in one cluster, that is lost, and the group goes on in the other one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from tests.compose.project import Project
from tests.hosts.shell import ProofError, say, wait_for

import ottla

PROFILE: Final = "mirror"
FLOW: Final = "east->west"
WEST: Final = "localhost:9096"
TOPIC: Final = "for-west"
COPY: Final = f"east.{TOPIC}"
GROUP: Final = "readers"
PARTITIONS: Final = 3
RECORDS: Final = 20_000
_LOST: Final = ("broker-0", "broker-1", "broker-2")
_UP_S: Final = 120.0
_LIMIT_S: Final = 60.0
_POSITIONS: Final = """
import json, sys
import ottla
with ottla.MirrorClient("localhost:9", redis="redis://redis:6379/0", request_timeout=5) as client:
    try:
        found = client.positions(*sys.argv[1:])
    except ottla.ConnectError:
        found = {}
print(json.dumps({str(place): offset for place, offset in found.items()}))
"""
"""A program that prints where a group goes on in the target. It asks Redis, which only containers reach, because no
mirror can be reached."""


@dataclass
class MirrorReport:
    written: int = 0
    """To the cluster that is lost."""
    lost: int = 0
    """Written records that are in neither cluster."""
    reread: int = 0
    """Read in both."""


def lose_a_site(project: Project, bootstrap: str) -> MirrorReport:
    """Raises ProofError where a record is lost or read again."""
    project("--profile", PROFILE, "up", "-d", timeout_s=_UP_S)
    wait_for(project.all_healthy, f"healthy sites ({project.describe()})", limit_s=_UP_S)
    with ottla.Admin(bootstrap) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS)
    with ottla.Producer(bootstrap, topic=TOPIC, value="bytes") as producer:
        for n in range(RECORDS):
            producer.send(b"%d" % n, partition=n % PARTITIONS)
    had = read(bootstrap, TOPIC, RECORDS // 2)
    say(f"{RECORDS} records written, {len(had)} of them read in east")
    seconds = wait_for(lambda: is_copied(RECORDS - len(had)), "the copy, and the group's offsets", limit_s=_LIMIT_S)
    say(f"all copied, and the group's offsets, after {seconds:.1f} s")
    wait_for(lambda: is_in_redis(project), "the group's offsets in Redis", limit_s=_LIMIT_S)
    for broker in _LOST:
        project.kill(broker)
    say(f"{', '.join(_LOST)} killed")
    fail_over()
    then = read(WEST, COPY, RECORDS - len(had))
    report = MirrorReport(RECORDS, RECORDS - len({*had, *then}), len(had) + len(then) - len({*had, *then}))
    if report.lost or report.reread:
        raise ProofError(f"{report.lost} records were lost, {report.reread} read again")
    say(f"{len(then)} records read in west, from the very next one on")
    return report


def read(bootstrap: str, topic: str, count: int) -> Collection[int]:
    """That many records, as a member of the group, committed when this returns."""
    found: list[int] = []
    with ottla.Consumer[Any, Any](topic, bootstrap=bootstrap, group=GROUP, auto_offset_reset="earliest") as consumer:
        while len(found) < count:
            batch = consumer.poll(_LIMIT_S, max_records=min(500, count - len(found)))
            if not batch:
                raise ProofError(f"{len(found)} of {count} records came")
            found += [int(record.value) for record in batch]
    return found


def is_copied(left: int) -> bool:
    """Whether the group would have so many records to read in west, of all that there are."""
    with ottla.Admin(WEST) as admin:
        if not admin.topics.exists(COPY) or not admin.groups.exists(GROUP):
            return False
        with ottla.Consumer(COPY, bootstrap=WEST, start="earliest", stop="end", value="bytes") as consumer:
            places = [(ottla.TopicPartition(COPY, record.partition), record.offset) for record in consumer]
        committed = admin.groups.committed(GROUP)
    to_come = [place for place, offset in places if offset >= committed.get(place, 0)]
    return len(places) == RECORDS and len(to_come) == left


def is_in_redis(project: Project) -> bool:
    """Whether a client that reaches no mirror finds in Redis where the group goes on in west."""
    with ottla.Admin(WEST) as admin:
        committed = {
            str(place): offset for place, offset in admin.groups.committed(GROUP).items() if place.topic == COPY
        }
    found: dict[str, int] = json.loads(project.python("cli", _POSITIONS, FLOW, GROUP))
    return found == committed


def fail_over() -> None:
    command = [sys.executable, "-m", "ottla", "-b", WEST, "mirror", "failover", FLOW, "--group", GROUP, "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if done.returncode:
        raise ProofError(f"the failover ended with {done.returncode}: {done.stderr}")
    say(f"ottla mirror failover: {[json.loads(line) for line in done.stdout.splitlines()]}")
