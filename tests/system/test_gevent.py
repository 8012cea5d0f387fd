"""The SDK in a process whose threads are greenlets, as Locust's are: many clients at once, and none of them waits."""

from __future__ import annotations

import json
import subprocess
import sys

from ottla.testing import Cluster

CLIENTS, RECORDS = 6, 50

PROGRAM = """
from gevent import monkey; monkey.patch_all()
import grpc.experimental.gevent; grpc.experimental.gevent.init_gevent()
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
gevent.joinall(jobs, timeout=40)
print(json.dumps([job.value for job in jobs]))
"""


def test_more_clients_than_gevent_has_threads() -> None:
    with Cluster(brokers=3) as cluster:
        command = [sys.executable, "-c", PROGRAM, cluster.bootstrap, str(CLIENTS), str(RECORDS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [CLIENTS * RECORDS] * CLIENTS
