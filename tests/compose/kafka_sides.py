"""Clients of Kafka's protocol on both sides of the network: kcat on the host, the SDK in a container.

Each knows one broker and is told the others by the listener that it came by: localhost outside, the brokers' own names
inside. Every partition is written and read, and every broker leads some, so that all of them are dialled. What one side
has written the other reads too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from typing import Any, Final

from tests.compose.project import Project
from tests.compose.traffic import OTTLA
from tests.hosts.engine import install
from tests.hosts.shell import ProofError, run, say

import ottla

OUTSIDE: Final = "localhost:9092"
INSIDE: Final = "broker-1:19092"
TOPIC: Final = "both-sides"
PARTITIONS: Final = 6
PER_PARTITION: Final = 500
_TOLD_OUTSIDE: Final = {f"localhost:{port}" for port in (9092, 9093, 9094)}
_TOLD_INSIDE: Final = {f"broker-{n}:19092" for n in range(3)}
_LIMIT_S: Final = 60.0

_CLIENT: Final = """
import json, sys, ottla
bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with ottla.Admin(bootstrap) as admin:
    partitions = range(len(admin.topics.describe(topic)[0].partitions))
    brokers = [broker.address for broker in admin.cluster.describe().brokers]
with ottla.Producer(bootstrap, topic=topic, value="str") as producer:
    for delivery in [producer.send("inside", partition=p) for p in partitions for _ in range(count)]:
        assert delivery.result(60).offset >= 0
seen = {}
with ottla.Consumer(topic, bootstrap=bootstrap, start="earliest", stop="end", value="str") as consumer:
    for record in consumer:
        name = f"{record.partition} {record.value}"
        seen[name] = seen.get(name, 0) + 1
print(json.dumps({"seen": seen, "brokers": brokers}))
"""
"""Writes `count` records to each partition, then reads all there is; tells how many of which, and where brokers are."""


def use_from_both_sides(project: Project) -> int:
    """How many records kcat has read on the host. Raises ProofError where one is missing, on either side."""
    if shutil.which("kcat") is None:
        install("kcat")
    ottla.Admin(OUTSIDE).topics.create(TOPIC, partitions=PARTITIONS)
    _check_told(json.loads(run(["kcat", "-b", OUTSIDE, "-L", "-J", "-t", TOPIC])))
    for partition in range(PARTITIONS):
        _produce(partition)
    inside = json.loads(project.python("cli", _CLIENT, INSIDE, TOPIC, str(PER_PARTITION)).splitlines()[-1])
    if set(inside["brokers"]) != _TOLD_INSIDE:
        raise ProofError(f"inside, a client is told {inside['brokers']}")
    outside = _consume()
    run([*OTTLA, "doctor"])  # fails where clients can't use what they are told
    project.run("cli", "doctor")
    wanted = Counter({f"{p} {side}": PER_PARTITION for p in range(PARTITIONS) for side in ("inside", "outside")})
    for side, seen in (("inside", Counter(inside["seen"])), ("outside", outside)):
        if seen != wanted:
            raise ProofError(f"{side}, {seen.total()} of {wanted.total()} records were read: {dict(seen)}")
    say(f"all {wanted.total()} records written on both sides were read on both sides, in {PARTITIONS} partitions")
    return outside.total()


def _check_told(metadata: dict[str, Any]) -> None:
    told = {broker["name"] for broker in metadata["brokers"]}
    leaders = Counter(p["leader"] for p in metadata["topics"][0]["partitions"])
    say(f"kcat is told {', '.join(sorted(told))}; leaders and their partitions: {dict(sorted(leaders.items()))}")
    if told != _TOLD_OUTSIDE or len(leaders) != len(_TOLD_OUTSIDE):
        raise ProofError(f"kcat is told {metadata}")


def _produce(partition: int) -> None:
    lines = "outside\n" * PER_PARTITION
    command = ["kcat", "-b", OUTSIDE, "-P", "-t", TOPIC, "-p", str(partition)]
    done = subprocess.run(command, input=lines, text=True, capture_output=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise ProofError(f"kcat can't write partition {partition}: {done.stderr.strip()}")


def _consume() -> Counter[str]:
    """Every record of every partition, as "partition value"."""
    command = ["kcat", "-b", OUTSIDE, "-C", "-t", TOPIC, "-o", "beginning", "-e", "-q", "-f", "%p %s\\n"]
    return Counter(run(command, timeout_s=_LIMIT_S).splitlines())
