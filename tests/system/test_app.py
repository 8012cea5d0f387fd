"""ottla.App over a real cluster: order within keys, retries, dead letters, restarts, kills and rebalances."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import subprocess
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import ending
from tests.walk.pages import section
from waiting import LIMIT_S, until, wait_until

import ottla
from ottla.app.dead_letters import ORIGIN
from ottla.testing import Cluster

PARTITIONS = 4
_names = (f"app-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(group_coordinators=1) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=PARTITIONS)
        admin.topics.create(f"{name}.dlq")
    return name


def app_of(cluster: Cluster, topic: str, **consumer: Any) -> ottla.App:
    defaults = {"auto_offset_reset": "earliest", "heartbeat_interval": 0.1}
    return ottla.App(topic, cluster.bootstrap, consumer={**defaults, **consumer})


def write(cluster: Cluster, topic: str, count: int, *, keys: int = 10, first: int = 0) -> None:
    with ottla.Producer[Any, Any](cluster.bootstrap, topic=topic) as producer:
        for n in range(first, first + count):
            producer.send(b"%d" % n, key=b"k%d" % (n % keys))


def committed(cluster: Cluster, topic: str) -> int:
    """Records of all partitions that the group has done with."""
    with ottla.Admin(cluster.bootstrap) as admin:
        lag = admin.groups.lag(topic)
    return sum(partition.committed or 0 for partition in lag.partitions)


@pytest.mark.feature(78)
async def test_keys_go_side_by_side_each_in_its_order_and_a_restart_goes_on(cluster: Cluster, topic: str) -> None:
    app = app_of(cluster, topic)
    seen: dict[bytes | None, list[int]] = defaultdict(list)
    now: Counter[bytes | None] = Counter()
    most = 0

    @app.on(topic, concurrency=4, retries=3, backoff=0.01, key="bytes")
    async def handle(value: bytes, ctx: ottla.Context) -> None:
        nonlocal most
        now[ctx.key] += 1
        most = max(most, now.total())
        assert now[ctx.key] == 1
        await asyncio.sleep(0.001)
        now[ctx.key] -= 1
        if int(value) % 7 == 0 and ctx.attempt < 3:
            raise ValueError("at the third attempt")
        seen[ctx.key].append(int(value))

    for first in (0, 200):
        write(cluster, topic, 200, first=first)
        async with app:
            await until(lambda: app.metrics["records-handled-total"] == 200)
        assert app.metrics["records-retried-total"] == 2 * sum(n % 7 == 0 for n in range(first, first + 200))
        assert committed(cluster, topic) == first + 200
    assert most == 4
    assert seen == {b"k%d" % key: list(range(key, 400, 10)) for key in range(10)}


async def test_a_dead_letter_is_the_record_with_its_origin(cluster: Cluster, topic: str) -> None:
    app = app_of(cluster, topic)

    @app.on(topic, retries=1, backoff=0.01, dead_letter=f"{topic}.dlq")
    def handle(value: dict[str, int]) -> None:
        raise ottla.RejectError("no such customer") if value else ValueError("nothing\ud800 in it")

    own = [("trace", b"\xff\0"), ("trace", None)]
    values = [b"\xff\xfe", b"{}", b'{"id": 1}']
    with ottla.Producer(cluster.bootstrap, topic=topic, key="bytes", value="bytes") as producer:
        for value in values:
            producer.send(value, key=b"\0key", partition=1, headers=own, timestamp=1_700_000_000_000)
    async with app:
        await until(lambda: app.metrics["records-dead-lettered-total"] == 3)
    assert committed(cluster, topic) == 3
    letters = {record.value: record for record in cluster.read(f"{topic}.dlq", key="bytes", value="bytes")}
    assert letters.keys() == set(values)
    expected = {
        values[0]: (0, b"builtins.UnicodeDecodeError", None, b"1"),
        values[1]: (1, b"builtins.ValueError", b"nothing? in it", b"2"),
        values[2]: (2, b"ottla.errors.RejectError", b"no such customer", b"1"),
    }
    for value, (offset, kind, message, attempts) in expected.items():
        record = letters[value]
        assert (record.key, record.headers[:2]) == (b"\0key", own)
        assert [name for name, _ in record.headers[2:]] == list(ORIGIN)
        told = [text for _, text in record.headers[2:]]
        assert told[:4] == [topic.encode(), b"1", b"%d" % offset, b"1700000000000"]
        assert told[4:] == [kind, message or told[5], attempts, topic.encode()]


CHILD = """
import os, sys, time
import ottla

bootstrap, topic, path, in_flight = sys.argv[1:]
app = ottla.App(topic, bootstrap, consumer={"auto_offset_reset": "earliest", "group_instance_id": "one"})
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.on(topic, concurrency=4, max_in_flight=int(in_flight), commit_interval=0.2)
def handle(value: bytes, ctx):
    time.sleep(0.004)
    os.write(file, value + b"\\n")

app.run()
"""


def handled(path: Path) -> Counter[int]:
    return Counter(int(line) for line in path.read_bytes().split()) if path.exists() else Counter()


def test_kill_9_loses_nothing_and_repeats_no_more_than_was_in_flight(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    path, count, in_flight = tmp_path / "handled", 1500, 100
    write(cluster, topic, count, keys=100)

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", CHILD, cluster.bootstrap, topic, str(path), str(in_flight)]
        return subprocess.Popen(command, stderr=subprocess.PIPE)

    with ending(start()) as killed:
        wait_until(lambda: handled(path).total() >= count // 2)
        killed.kill()
        killed.communicate(timeout=LIMIT_S)
    assert handled(path).total() < count
    with ending(start()) as after:
        wait_until(lambda: len(handled(path)) == count)
        after.send_signal(signal.SIGTERM)
        _, errors = after.communicate(timeout=LIMIT_S)
    assert (after.returncode, errors) == (0, b"")
    repeated = handled(path).total() - count
    assert repeated <= in_flight
    assert committed(cluster, topic) == count


async def test_apps_share_a_group_and_hand_over_without_repeating(cluster: Cluster, topic: str) -> None:
    apps = [app_of(cluster, topic) for _ in range(2)]
    seen: list[Counter[int]] = [Counter(), Counter()]
    for app, mine in zip(apps, seen, strict=True):

        @app.on(topic, concurrency=8)
        async def handle(value: bytes, mine: Any = mine) -> None:
            await asyncio.sleep(0.002)
            mine[int(value)] += 1

    written = 0

    async def write_until(condition: Any) -> None:
        nonlocal written
        while not condition():
            await asyncio.to_thread(write, cluster, topic, 100, keys=100, first=written)
            written += 100

    async with apps[0]:
        await write_until(lambda: seen[0].total() > 50)
        async with apps[1]:
            await write_until(lambda: seen[1].total() > 50)
        alone = seen[1].total()
        await write_until(lambda: True)
        await until(lambda: (seen[0] + seen[1]).total() >= written)
    assert seen[1].total() == alone < written
    assert seen[0] + seen[1] == Counter(range(written))
    assert committed(cluster, topic) == written


def test_the_page_does_what_it_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = section("docs/use/sdk.md", "Handlers: `ottla.App`")
    ((source, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses look their annotations up
    exec(source, vars(module))
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(printed.splitlines())
    assert dict(re.findall(r"^\| `(ottla\.[a-z.]+)` \| (.*) \|$", page, re.MULTILINE)) == ORIGIN
