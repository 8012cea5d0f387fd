"""examples/web_service.py, served by uvicorn: orders are in the topic, and outlive the process that has taken them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from children import ending
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS: list[dict[str, Any]] = [{"article": ("apple", "pear")[count % 2], "count": count} for count in range(40)]


@contextmanager
def served(cluster: Cluster, directory: Path) -> Iterator[httpx.Client]:
    """A client of a process that serves, on a free port, while the block runs."""
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", "0", "web_service:app"]
    environment = {**os.environ, "OTTLA_BOOTSTRAP": cluster.bootstrap}
    log = directory / "uvicorn.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    with ending(process):
        wait_until(lambda: process.poll() is not None or "running on" in log.read_text())
        address = re.search(r"running on (http://\S+)", log.read_text())
        assert address, log.read_text()
        with httpx.Client(base_url=address[1], timeout=LIMIT_S) as client:
            yield client
        process.terminate()
        process.wait(LIMIT_S)
    assert "shutdown complete" in log.read_text(), log.read_text()


def take(client: httpx.Client, order: dict[str, Any]) -> str:
    """The id that the order gets; it can be looked up at once."""
    answer = client.post("/orders", json=order)
    assert answer.status_code == 201, answer.text
    number: str = answer.json()["id"]
    assert client.get(f"/orders/{number}").json() == order
    return number


def test_orders_are_written_to_the_topic_and_looked_up_in_its_table(tmp_path: Path) -> None:
    with Cluster() as cluster:
        with served(cluster, tmp_path) as client:
            taken = {take(client, order): order for order in ORDERS}
            assert client.get("/orders/nobodys").status_code == 404
            assert client.post("/orders", json={"article": "pear", "count": "many"}).status_code == 422
            cluster.faults.error("Produce", ottla.ErrorCode.INVALID_RECORD).once()
            refused = client.post("/orders", json=ORDERS[0])
            assert (refused.status_code, list(refused.json())) == (503, ["detail"])
        records = ottla.read("orders", bootstrap=cluster.bootstrap, key="str", value="json")
        assert {str(record.key): record.value for record in records} == taken
        with served(cluster, tmp_path) as client:
            assert {number: client.get(f"/orders/{number}").json() for number in taken} == taken
