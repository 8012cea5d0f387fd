"""Clients that were made before a fork: in the child each call says so at once, and the child comes to its end."""

import itertools
import subprocess
import sys
from collections.abc import Iterator

import pytest
from waiting import LIMIT_S

import ottla
from ottla.testing import Cluster

_numbers = itertools.count()

SYNC = """
import faulthandler, os, sys
import ottla

T = os.environ["TOPIC"]
admin = ottla.Admin()
producer = ottla.Producer(topic=T, linger=30)  # so that a fork comes before the answer
before = producer.send("parent")
producer.flush(60)
place = before.result(60)
consumer = ottla.Consumer(T, start="earliest")
member = ottla.Consumer(T, group=T, auto_offset_reset="earliest")
while not (consumer.poll(1) and member.poll(1)):
    pass
pending = producer.send("pending")
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    assert before.result(0) == place
    calls = {
        "send": lambda: producer.send("child"), "flush": producer.flush, "result": pending.result,
        "partitions_for": producer.partitions_for, "producer.metrics": lambda: producer.metrics,
        "poll": consumer.poll, "iterate": lambda: next(iter(consumer)), "member.poll": member.poll,
        "commit": member.commit, "committed": member.committed, "wakeup": consumer.wakeup,
        "metrics": lambda: consumer.metrics, "lag": consumer.lag, "list": admin.topics.list,
        "groups": admin.groups.list, "describe": admin.cluster.describe,
    }
    for name, call in calls.items():
        try:
            call()
        except ottla.ConfigError as error:
            assert "created in process" in error.message and "create one in each process" in error.hint, error
        else:
            raise AssertionError(name + " went well")
    for client in (producer, consumer, member, admin):
        client.close()
    sys.exit(7)  # through the end of the interpreter
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
for client in (producer, consumer, member, admin):
    client.close()
with ottla.Consumer(T, start="earliest", stop="end") as check:
    print(sorted(record.value for record in check))
"""

OWN = """
import faulthandler, os, sys
import ottla

T = os.environ["TOPIC"]
producer = ottla.Producer(topic=T)
producer.send("parent").result(60)
member = ottla.Consumer(T, group=T, auto_offset_reset="earliest")
while not member.poll(1):
    pass
admin = ottla.Admin()
admin.topics.list()
def child_ended():
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        with ottla.Producer(topic=T) as own:
            own.send("child").result(60)
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

assert (child_ended(), child_ended()) == (7, 7)
admin.topics.list()
producer.send("parent").result(60)
while not member.poll(1):
    pass
for client in (producer, member, admin):
    client.close()
with ottla.Consumer(T, start="earliest", stop="end") as check:
    print(sorted(record.value for record in check))
"""

AIO = """
import asyncio, faulthandler, os
import ottla.aio

T = os.environ["TOPIC"]

async def use(producer, consumer, admin):
    calls = {
        "send": lambda: producer.send("child"), "flush": producer.flush, "send_many": lambda: producer.send_many(["a"]),
        "poll": consumer.poll, "position": lambda: consumer.position((T, 0)), "list": admin.topics.list,
    }
    for name, call in calls.items():
        try:
            await call()
        except ottla.ConfigError as error:
            assert "before a fork" in error.message, error
        else:
            raise AssertionError(name + " went well")
    for client in (producer, consumer, admin):
        await client.close()

async def main():
    admin = ottla.aio.Admin()
    producer = ottla.aio.Producer(topic=T)
    await producer.send("parent")
    consumer = ottla.aio.Consumer(T, start="earliest")
    while not await consumer.poll(1):
        pass
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        asyncio.events._set_running_loop(None)  # a child has a loop of its own
        asyncio.run(use(producer, consumer, admin))
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for client in (producer, consumer, admin):
        await client.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t{next(_numbers)}"
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=1)
    return name


@pytest.fixture(autouse=True)
def environment(cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the programs read."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    monkeypatch.setenv("TOPIC", topic)


def run(source: str) -> str:
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.story("fork-without-a-word")
def test_a_child_hears_of_the_fork_and_ends_and_the_parent_goes_on() -> None:
    assert run(SYNC).splitlines()[-1] == "['parent', 'pending']"


def test_a_child_of_an_asyncio_program_hears_it_too() -> None:
    run(AIO)


def test_a_child_has_clients_of_its_own_beside_those_of_its_parent() -> None:
    assert run(OWN).splitlines()[-1] == "['child', 'child', 'parent', 'parent']"
