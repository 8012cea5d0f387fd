"""Tables over a real cluster: the programs of docs/use/tables.md, and what outlives leaders and topics."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.walk.pages import programs, promised, text
from waiting import LIMIT_S, wait_until

import ottla
import ottla.aio
from ottla.testing import Cluster

pytestmark = pytest.mark.feature(171)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, txn_coordinators=1) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap) as made:
        yield made
        for topic in made.topics.list():
            made.topics.delete(topic)


def test_the_page_does_what_it_promises(
    cluster: Cluster, admin: ottla.Admin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", cluster.bootstrap)
    page = text("docs/use/tables.md")
    admin.topics.create("orders")
    first, app, last = programs(page)
    for program, prints in ((first, promised(first)), (app, ["pear 90"]), (last, promised(last))):
        assert prints[0] in page
        module = types.ModuleType("page")
        monkeypatch.setitem(sys.modules, "page", module)
        exec(program, vars(module))  # the page is ours
        assert capsys.readouterr().out.splitlines() == prints


def test_it_loads_follows_and_survives_a_leaders_end_and_the_topic_made_anew(
    cluster: Cluster, admin: ottla.Admin
) -> None:
    config = {"cleanup.policy": "compact", "min.insync.replicas": 2}
    admin.topics.create("prices", partitions=6, replicas=3, config=config)
    expected: dict[str, Any] = {f"k{n}": n + 9000 for n in range(1000)}
    with (
        ottla.Producer(cluster.bootstrap, topic="prices") as producer,
        ottla.Table("prices", bootstrap=cluster.bootstrap) as table,
    ):
        for n in range(10_000):
            producer.send(n, key=f"k{n % 1000}")
        producer.flush()
        table.wait_until_caught_up(60)
        assert dict(table) == expected
        victim = admin.topics.describe("prices")[0].partitions[0].leader
        cluster.brokers[victim].kill()
        for n in range(100):
            sent = producer.send(None, key=f"k{n}").result(LIMIT_S)
            table.wait_for(sent.partition, sent.offset, 60)  # one's own write
            assert f"k{n}" not in table
            del expected[f"k{n}"]
        cluster.brokers[victim].restart()
        assert dict(table.items()) == expected
        assert table.metrics["loads-total"] == 1
    with ottla.Table("prices", bootstrap=cluster.bootstrap) as table:
        watch = table.watch("k")
        admin.topics.delete("prices")
        admin.topics.create("prices", partitions=2, config={"cleanup.policy": "compact"})
        with ottla.Producer(cluster.bootstrap, topic="prices") as producer:
            producer.send(5, key="k")
        table.wait_until_caught_up(60)
        wait_until(lambda: dict(table) == {"k": 5})
        assert set(table.position) == {0, 1}
        assert next(watch).value == 5


@pytest.mark.story("table-snapshot-at-another-isolation-level")
def test_a_snapshot_of_uncommitted_records_is_not_used_by_a_table_of_committed_ones(
    cluster: Cluster, admin: ottla.Admin, tmp_path: Path
) -> None:
    admin.topics.create("t", config={"cleanup.policy": "compact"})
    text: Any = {"bootstrap": cluster.bootstrap, "key": "str", "value": "str"}
    with ottla.Producer(topic="t", transactional_id="x", **text) as producer, producer.transaction() as transaction:
        transaction.send("never", key="ghost").result()
        uncommitted = {"isolation.level": "read_uncommitted"}
        with ottla.Table("t", snapshot=tmp_path, config=uncommitted, **text) as table:
            table.wait_until_caught_up()
            assert dict(table) == {"ghost": "never"}
            wait_until((tmp_path / "t.snapshot").exists)
        producer.abort_transaction()
    with ottla.Table("t", snapshot=tmp_path, **text) as table:
        table.wait_until_caught_up()
        assert dict(table) == {}


def test_a_table_shows_nothing_that_retention_has_taken_out_of_its_topic(
    cluster: Cluster, admin: ottla.Admin, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    admin.topics.create("t", config={"cleanup.policy": "compact,delete"})
    for expected in ({"k": "old"}, {}):
        with ottla.Table("t", bootstrap=cluster.bootstrap, snapshot=tmp_path) as table:
            if expected:
                with ottla.Producer(cluster.bootstrap, topic="t") as producer:
                    producer.send("old", key="k").result()
            table.wait_until_caught_up()
            assert dict(table) == expected
            wait_until(lambda: "can't take a snapshot of 't': cleanup.policy contains delete" in caplog.text)
        admin.topics.delete_records("t")
    assert not (tmp_path / "t.snapshot").exists()


async def test_the_same_for_asyncio(cluster: Cluster, admin: ottla.Admin) -> None:
    await asyncio.to_thread(admin.topics.create, "prices", partitions=3)
    async with (
        ottla.aio.Producer(cluster.bootstrap, topic="prices") as producer,
        ottla.aio.Table("prices", bootstrap=cluster.bootstrap) as table,
    ):
        watch = table.watch()
        for n in range(100):
            sent = await producer.send(n, key=f"k{n % 10}")
            await table.wait_for(sent.partition, sent.offset, 30)
            assert table[f"k{n % 10}"] == n
            change = await anext(watch)
            assert (change.key, change.value, change.offset) == (f"k{n % 10}", n, sent.offset)
        await table.wait_until_caught_up(30)
        assert table.caught_up
