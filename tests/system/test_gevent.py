"""The SDK in a process whose threads are greenlets, as Locust's are: many clients at once, and none of them waits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loadtest.locust import topics
from waiting import LIMIT_S

import ottla
from ottla.testing import Cluster

ROOT = Path(__file__).parents[2]
CLIENTS, RECORDS = 6, 50
MEMBERS, MEMBERSHIPS = 3, 3

GREENLETS = "from gevent import monkey; monkey.patch_all()"

CLIENT = """
import json, sys, time, gevent, ottla
bootstrap, clients, records = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ottla.Admin(bootstrap).topics.create("t", partitions=3)

def client(number):
    with ottla.Producer(bootstrap, topic="t", value="int") as producer:
        for n in range(records):
            producer.send(n, partition=n % 3)
            if n % 10 == 9:
                producer.flush(10)
        with ottla.Consumer("t", bootstrap=bootstrap, start="earliest", value="int") as consumer:
            read, give_up_at = 0, time.monotonic() + 20
            while read < clients * records and time.monotonic() < give_up_at:
                read += len(consumer.poll(1.0))
            return read

jobs = [gevent.spawn(client, number) for number in range(clients)]
gevent.joinall(jobs, timeout=150)
print(json.dumps([job.value for job in jobs]))
"""


MEMBER = """
import json, sys, gevent, ottla
from loadtest.locust import topics
from loadtest.locust.churn import Churn
from loadtest.locust.membership import Membership
from loadtest.rows.clients import Reach
bootstrap, assignor, members, memberships = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
churn, producer = Churn(), ottla.Producer(bootstrap, topic=topics.CHURN)

def member(number):
    read = 0
    for _ in range(memberships):
        for n in range(10 * topics.PARTITIONS):
            producer.send(b"to be read", partition=n % topics.PARTITIONS)
        membership = Membership(Reach(bootstrap), assignor, None, churn)
        membership.run(stay_s=0.2 + 0.3 * number)
        read += membership.size_bytes
    return read

jobs = [gevent.spawn(member, number) for number in range(members)]
gevent.joinall(jobs, raise_error=True)
producer.close()
report = churn.report({"requests": members * memberships, "failures": 0, "p50_ms": 0, "p99_ms": 0}, 1)
print(json.dumps([report["rebalances"], sum(job.value for job in jobs)]))
"""


TRANSACTIONS = """
import json, sys, time, gevent, ottla
bootstrap, clients, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ottla.Admin(bootstrap).topics.create("t", partitions=3)

def client(number):
    with ottla.Producer(bootstrap, topic="t", value="str", transactional_id=f"client-{number}") as producer:
        producer.init_transactions()
        for n in range(rounds):
            producer.begin_transaction()
            producer.send("aborted", partition=n % 3)
            producer.flush(10)
            producer.abort_transaction()
            with producer.transaction():
                producer.send("committed", partition=n % 3)
        read, give_up_at = [], time.monotonic() + 40
        with ottla.Consumer("t", bootstrap=bootstrap, start="earliest", value="str") as consumer:
            while len(read) < clients * rounds and time.monotonic() < give_up_at:
                read += consumer.poll(1.0).values()
        return read.count("committed"), read.count("aborted")

jobs = [gevent.spawn(client, number) for number in range(clients)]
gevent.joinall(jobs, raise_error=True)
print(json.dumps([job.value for job in jobs]))
"""


def answer(program: str, *arguments: object, limit_s: float = 60.0) -> Any:
    """What the program prints in the end, as a process whose threads are greenlets."""
    command = [sys.executable, "-c", GREENLETS + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_more_clients_than_gevent_has_threads() -> None:
    with Cluster(brokers=3) as cluster:
        read = answer(CLIENT, cluster.bootstrap, CLIENTS, RECORDS)
    assert read == [CLIENTS * RECORDS] * CLIENTS


def test_transactions_of_many_clients_are_read_whole_or_not_at_all() -> None:
    with Cluster(brokers=1, txn_coordinators=1) as cluster:
        found = answer(TRANSACTIONS, cluster.bootstrap, CLIENTS, 5, limit_s=LIMIT_S)
    assert found == [[5 * CLIENTS, 0]] * CLIENTS


@pytest.mark.feature(63)
@pytest.mark.feature(68)
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_of_a_group_come_and_go(assignor: str) -> None:
    """Each sees to it that nobody else reads what is its own, and that no commit is lost."""
    with Cluster(brokers=1) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create(topics.CHURN, partitions=topics.PARTITIONS)
        rebalances, size_bytes = answer(MEMBER, cluster.bootstrap, assignor, MEMBERS, MEMBERSHIPS, limit_s=LIMIT_S)
    assert rebalances >= MEMBERSHIPS - 1, "nobody is in one generation twice"
    assert size_bytes > 0
