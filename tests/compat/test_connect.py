"""Kafka Connect, as docs/use/connect.md has it: rows of a table go over a topic into another table."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from children import ending
from peers.connect.worker import Worker
from peers.place import PeerError
from peers.postgres import Postgres
from tests.compat.cells import CONNECT
from waiting import wait_until

import ottla
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/use/connect.md").read_text(encoding="utf-8")
[SETTINGS] = re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
ORDERS, COPY = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
API = "localhost:8083/connectors"
TOPICS = ("connect-configs", "connect-offsets", "connect-status")
AT_ONCE = {
    "plugin.discovery": "service_load",
    "offset.flush.interval.ms": 500,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "scheduled.rebalance.max.delay.ms": 0,
    "consumer.session.timeout.ms": 6000,
    "consumer.heartbeat.interval.ms": 1000,
    **{f"{kind}.storage.max.compaction.lag.ms": 1000 for kind in ("config", "offset", "status")},
    **{f"{kind}.storage.min.cleanable.dirty.ratio": 0 for kind in ("config", "offset", "status")},
}
"""What makes a test quick and is on no page: short times, no jars scanned."""
LIMIT_S = 150.0
"""As long as a JVM may need that has just been started on a busy machine."""


class Shop:
    """Two workers, the table `orders` and its copy."""

    def __init__(self, cluster: Cluster, database: Postgres, directory: Path) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, **AT_ONCE}
        lines = SETTINGS + "".join(f"{name}={value}\n" for name, value in settings.items())
        self.workers = [Worker(f"worker-{n}", directory, lines) for n in range(2)]
        self.cluster = cluster
        self.database = database
        url = COPY["connection.url"].replace("5432", str(database.port))
        self._source, self._sink = ORDERS | {"database.port": database.port}, COPY | {"connection.url": url}
        self._ids = 0

    def insert(self, rows: int) -> range:
        """The new rows' ids."""
        first, self._ids = self._ids + 1, self._ids + rows
        self.sql(f"INSERT INTO orders SELECT n, 'item ' || n FROM generate_series({first}, {self._ids}) n")
        return range(first, self._ids + 1)

    def sql(self, statement: str) -> list[list[str]]:
        return self.database.query(statement)

    def is_copied(self) -> bool:
        """Whether the copy has the same rows, no more and no fewer."""
        try:
            return self.sql("SELECT id, item FROM orders ORDER BY id") == self.sql(
                "SELECT id, item FROM orders_copy ORDER BY id"
            )
        except PeerError:  # no table before its first row
            return False

    def copied(self) -> int:
        """The rows of the copy."""
        return int(self.sql("SELECT count(*) FROM orders_copy")[0][0])

    def records(self) -> list[tuple[int, Any, int]]:
        """Return the topic's records: each row's id, the row (None if it was deleted) and the offset."""
        found = self.cluster.read("orders", key="json", value="json")
        return [((r.key or {})["payload"]["id"], (r.value or {}).get("payload"), r.offset) for r in found]

    def written(self) -> Counter[int]:
        """How often each row's id is in the topic, but for deletions."""
        return Counter(id_ for id_, row, _ in self.records() if row)

    def left(self, topic: str) -> list[ottla.Record[Any, Any]]:
        """What the cleaner has left of it so far."""
        return self.cluster.read(topic, key="bytes", value="bytes")

    def curl(self, words: str) -> Any:
        """What the first worker answers to a command of the page, once it accepts that."""
        [given] = re.findall(rf"^    curl {re.escape(words)}$", PAGE, re.MULTILINE)
        [path] = re.findall(r"localhost:8083(\S+)", given)
        [method] = re.findall(r"-X (\S+)", given) or ["GET"]
        files = {"orders.json": self._source, "orders-copy.json": self._sink}
        body = [files[name] for name in re.findall(r"--data @(\S+)", given)]
        answers: list[Any] = []
        wait(lambda: answers.append(self.workers[0].call(method, path, *body)) or True)
        return answers[0]

    def create(self, sinks_topic: str = "orders") -> None:
        """Both connectors, or what has gone or changed of them."""
        self._sink["topics"] = sinks_topic
        for name in ("orders", "orders-copy"):
            self.curl(f'-X PUT -H "Content-Type: application/json" --data @{name}.json {API}/{name}/config')

    def runs_on(self, connector: str, worker: int = 0) -> list[int]:
        """The workers that have the connector's tasks, as one of them sees it; none unless all of them run."""
        status = self.workers[worker].call("GET", f"/connectors/{connector}/status")
        places = {each.address: number for number, each in enumerate(self.workers)}
        if {status["connector"]["state"], *(task["state"] for task in status["tasks"])} != {"RUNNING"}:
            return []
        return [places[task["worker_id"]] for task in status["tasks"]]

    def committed(self) -> Counter[int]:
        """`written`, once the source has committed that it has read it all: it may read none of it again."""
        [[end]] = self.sql("SELECT pg_current_wal_lsn() - '0/0'")
        self.insert(1)
        wait(lambda: self.curl(f"{API}/orders/offsets")["offsets"][0]["offset"]["lsn"] >= int(end))
        return self.written()

    def begin_again(self, rows: int) -> None:
        """All workers, while rows come."""
        for worker in self.workers:
            worker.stop()
        self.insert(rows)
        for worker in self.workers:
            worker.start()
        wait(self.is_copied)

    def check_nothing_again(self, before: Counter[int]) -> None:
        """What was committed then is as often in the topic as it was."""
        written = self.written()
        assert {n: written[n] for n in before} == dict(before)
        print(f"{len(written)} rows, {written.total() - len(written)} of them changed or written again")


def wait(condition: Callable[[], object]) -> None:
    """A worker refuses requests while it rebalances, and answers none while it starts."""

    def holds() -> object:
        try:
            return condition()
        except (PeerError, OSError):
            return False

    wait_until(holds, limit_s=LIMIT_S)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Postgres() as database, Cluster(brokers=3) as cluster, ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"log.cleaner.backoff.ms": 100})
        shop = Shop(cluster, database, tmp_path_factory.mktemp("connect"))
        shop.sql("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
        shop.insert(100)
        try:
            for worker in shop.workers:
                worker.start()
            for worker in shop.workers:
                wait_until(worker.is_ready, limit_s=LIMIT_S)
            shop.create(sinks_topic="elsewhere")  # what the cleaner must not bring back
            shop.create()
            wait(lambda: shop.runs_on("orders") and shop.runs_on("orders-copy") and shop.is_copied())
            yield shop
        finally:
            for worker in shop.workers:
                worker.stop()


@CONNECT.cell
@pytest.mark.feature(169)
def test_rows_go_over_a_topic_into_another_table(shop: Shop) -> None:
    """Those from before, new ones, changed ones; and those that are deleted. Transforms have their part, both ways."""
    ids = shop.insert(100)
    shop.sql(f"UPDATE orders SET item = 'other' WHERE id = {ids[0]}")
    shop.sql(f"DELETE FROM orders WHERE id = {ids[1]}")
    wait(shop.is_copied)
    newest = {id_: (row, str(offset)) for id_, row, offset in shop.records()}
    assert newest[ids[0]][0] == {"id": ids[0], "item": "other", "origin": "shop"}
    assert newest[ids[1]][0] is None
    copied = shop.sql("SELECT id, origin, kafka_offset FROM orders_copy WHERE id % 50 = 0 ORDER BY id")
    assert copied == [[str(n), "shop", newest[n][1]] for n in (50, 100, 150, 200)]
    print(f"{len(newest)} rows copied by {shop.runs_on('orders')} and {shop.runs_on('orders-copy')}")


@CONNECT.cell
def test_a_connector_goes_on_where_it_was(shop: Shop) -> None:
    """Paused and resumed, deleted and made again, after a restart of all workers: nothing is read a second time."""
    before = shop.committed()
    shop.curl(f"-X PUT {API}/orders/pause")
    wait(lambda: shop.curl(f"{API}/orders/status")["tasks"][0]["state"] == "PAUSED")
    shop.insert(100)
    assert shop.written() == before
    shop.curl(f"-X PUT {API}/orders/resume")
    wait(shop.is_copied)
    before |= shop.committed()
    shop.curl(f"-X DELETE {API}/orders")
    shop.insert(100)
    shop.create()
    wait(shop.is_copied)
    before |= shop.committed()
    shop.begin_again(100)
    shop.check_nothing_again(before)


@CONNECT.cell
def test_workers_are_killed(shop: Shop) -> None:
    """Each in turn, while rows come: the other has their tasks then, and none is missing."""
    before = shop.committed()
    for killed in (0, 1):
        wait(lambda: shop.runs_on("orders") and shop.runs_on("orders-copy"))
        copied = shop.copied()
        shop.insert(5_000)
        wait(lambda copied=copied: shop.copied() > copied)
        shop.workers[killed].kill()
        shop.insert(1_000)
        other = 1 - killed
        wait(lambda other=other: shop.runs_on("orders", other) == shop.runs_on("orders-copy", other) == [other])
        wait(shop.is_copied)
        shop.workers[killed].start()
        wait_until(shop.workers[killed].is_ready, limit_s=LIMIT_S)
    shop.check_nothing_again(before)


@CONNECT.cell
def test_its_topics_are_compacted(shop: Shop) -> None:
    """Those that it has made by itself keep one record for each key, and workers that begin with these go on."""
    before = shop.committed()
    with ottla.Admin(shop.cluster.bootstrap) as admin:
        configs = admin.configs.of_topics(*TOPICS)
        assert {configs[topic]["cleanup.policy"].value for topic in TOPICS} == {"compact"}

        for worker in shop.workers:
            worker.stop()
        for topic in TOPICS:
            written = sum(end or 0 for end in admin.topics.offsets(topic).values())
            wait_until(lambda topic=topic, written=written: len(shop.left(topic)) < written)
            keys = {record.key for record in shop.left(topic)}
            print(f"{topic}: {len(shop.left(topic))} of {written} records left, for {len(keys)} keys")
    shop.insert(100)
    for worker in shop.workers:
        worker.start()
    wait(shop.is_copied)
    shop.check_nothing_again(before)


@contextmanager
def example(shop: Shop, log: Path) -> Iterator[Callable[[], dict[str, Any]]]:
    """What the changes that examples/change_data_capture.py has printed so far make of its table."""
    command = [sys.executable, str(ROOT / "examples/change_data_capture.py"), shop.workers[0].address]
    environment = {**os.environ, "OTTLA_BOOTSTRAP": shop.cluster.bootstrap}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, f"127.0.0.1:{shop.database.port}"], stdout=output, stderr=output, env=environment
        )

    def rows() -> dict[str, Any]:
        assert process.poll() is None, log.read_text()
        changes = re.findall(r"^(\d+): (.*) -> (.*)$", log.read_text(), re.MULTILINE)
        found: dict[str, Any] = {}
        for key, old, value in changes:
            assert found.get(key) == ast.literal_eval(old)
            found[key] = ast.literal_eval(value)
        return {key: row for key, row in found.items() if row is not None}

    with ending(process):
        yield rows


@CONNECT.cell
def test_the_changes_of_a_table_are_followed_in_memory(shop: Shop, tmp_path: Path) -> None:
    """By examples/change_data_capture.py: rows from before, new, changed and deleted ones, and after a restart."""

    def expected() -> dict[str, Any]:
        return {key: {"id": int(key), "name": name} for key, name in shop.sql("SELECT id, name FROM customers")}

    shop.sql("CREATE TABLE customers (id INT PRIMARY KEY, name TEXT)")
    shop.sql("INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, 20) n")
    wait(lambda: shop.runs_on("orders") and shop.runs_on("orders-copy"))
    with example(shop, tmp_path / "first.log") as rows:
        wait_until(lambda: rows() == expected(), limit_s=LIMIT_S)
        shop.sql("INSERT INTO customers VALUES (21, 'new')")
        shop.sql("UPDATE customers SET name = 'other' WHERE id = 3")
        shop.sql("DELETE FROM customers WHERE id BETWEEN 5 AND 8")
        wait_until(lambda: rows() == expected(), limit_s=LIMIT_S)
    with example(shop, tmp_path / "second.log") as rows:
        wait_until(lambda: rows() == expected(), limit_s=LIMIT_S)
        assert len(rows()) == 17
    shop.workers[0].call("DELETE", "/connectors/customers")
