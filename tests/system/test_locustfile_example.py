"""examples/locustfile.py, run headless by Locust: what it counts is what the topic has; failures are counted, too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from children import ending
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

EXAMPLE = Path(__file__).parents[2] / "examples/locustfile.py"
TOPIC, GROUP, BATCH = "load-test-orders", "billing", 100
SHOPS = 3


def run(
    cluster: Cluster, directory: Path, *users: str, until: Callable[[], object]
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Locust's exit code, and its statistics by the names of requests. It is stopped once the condition is true."""
    command = [sys.executable, "-m", "locust", "-f", str(EXAMPLE), "-H", cluster.bootstrap, "--headless", "--json"]
    command += ["-u", f"{SHOPS + 1}", "-r", "10", "--stop-timeout", f"{LIMIT_S:.0f}", "--only-summary", *users]
    with (
        (directory / "locust.log").open("w+") as log,
        ending(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=directory)) as process,
    ):
        wait_until(lambda: process.poll() is not None or until())
        process.terminate()
        out, _ = process.communicate(timeout=LIMIT_S)
        assert out.startswith("["), Path(log.name).read_text()
    return process.returncode, {counted["name"]: counted for counted in json.loads(out)}


def written(admin: ottla.Admin) -> int:
    return sum(end or 0 for end in admin.topics.offsets(TOPIC).values()) if admin.topics.exists(TOPIC) else 0


def read(admin: ottla.Admin) -> int:
    return sum(admin.groups.committed(GROUP, if_missing="ok").values())


def test_locust_counts_the_orders_that_are_acknowledged_and_those_that_are_read(tmp_path: Path) -> None:
    """A user whose wait is over just as it is stopped may have sent a batch more, which Locust does not count."""
    with Cluster() as cluster, ottla.Admin(cluster.bootstrap) as admin:
        code, counted = run(cluster, tmp_path, until=lambda: written(admin) >= 10 * BATCH and read(admin))
        sent = counted["send"]["num_requests"] * BATCH
        assert (code, counted["send"]["num_failures"], counted["read"]["num_failures"]) == (0, 0, 0)
        assert 10 * BATCH - SHOPS * BATCH <= sent <= written(admin) <= sent + SHOPS * BATCH
        assert 0 < read(admin) <= min(written(admin), (counted["read"]["num_requests"] + 1) * BATCH)
        assert 0 <= counted["read"]["min_response_time"] <= counted["read"]["max_response_time"] < LIMIT_S * 1000


def test_an_order_that_is_refused_is_a_failure(tmp_path: Path) -> None:
    with Cluster() as cluster, ottla.Admin(cluster.bootstrap) as admin:
        refused = cluster.faults.error("Produce", ottla.ErrorCode.INVALID_RECORD).times(1)
        code, counted = run(cluster, tmp_path, "Shop", until=lambda: written(admin) >= 10 * BATCH)
    assert (code, refused.met, counted["send"]["num_failures"]) == (1, 1, 1)
    assert counted["send"]["num_requests"] > 1
