"""Failover to another cluster: a mirror copies orders from `east` to `west`, `east` is lost, a group goes on in `west`.

    python examples/mirror_failover.py

The clusters run in this process, the mirror in one of its own. Each transaction ends with a marker in `east`, which the
mirror does not copy. So orders have other offsets in `west`, and the mirror translates those of the group.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import ottla
from ottla.testing import Cluster
from ottla_stack.ports import free_port_base

ORDERS, BILLED_IN_EAST = 40, 25
GROUP, FLOW = "billing", "east->west"
FILE = """
[clusters]
east = "{east}"
west = "{west}"

[[flows]]
source = "east"
target = "west"
topics = ["orders"]
delivery = "exactly_once"
heartbeats = false
"""


def write_orders(bootstrap: str) -> None:
    with ottla.Admin(bootstrap) as admin:
        admin.topics.create("orders", partitions=1)
    with ottla.Producer(bootstrap, topic="orders", value="int", transactional_id="shop") as producer:
        for first in range(0, ORDERS, 10):
            with producer.transaction() as transaction:
                for order in range(first, first + 10):
                    transaction.send(order)


def bill(bootstrap: str, topic: str, count: int) -> list[int]:
    """Bill so many orders as a member of the group, which commits them."""
    with ottla.Consumer(
        topic, bootstrap=bootstrap, group=GROUP, auto_offset_reset="earliest", stop=count, value="int"
    ) as orders:
        return [order.value for order in orders]


def wait_for_mirror(mirror: ottla.MirrorClient, bootstrap: str) -> None:
    """Wait until the mirror has copied all orders, and knows how far the group is."""
    with ottla.Admin(bootstrap) as admin:
        committed = admin.groups.committed(GROUP)
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        with suppress(ottla.OttlaError):  # it does not answer yet, or can't translate yet
            lags = [partition.lag for partition in mirror.flow(FLOW).partitions]
            if lags == [0] and mirror.positions(FLOW, GROUP) == mirror.translate(FLOW, committed):
                return
        time.sleep(0.1)
    raise TimeoutError("the mirror has not caught up")


def main(directory: Path) -> None:
    port, file = free_port_base(), directory / "mirror.toml"
    command = [sys.executable, "-m", "ottla_mirror", "--file", str(file), "--port", str(port), "--admin-port", "0"]
    with Cluster(txn_coordinators=1) as east, Cluster(txn_coordinators=1) as west:
        file.write_text(FILE.format(east=east.bootstrap, west=west.bootstrap))
        write_orders(east.bootstrap)
        print("billed in east:", *bill(east.bootstrap, "orders", BILLED_IN_EAST))
        process = subprocess.Popen([*command, "--log-level", "CRITICAL"])
        try:
            with ottla.MirrorClient(f"localhost:{port}") as mirror:
                wait_for_mirror(mirror, east.bootstrap)
                east.stop()
                for moved in mirror.failover(FLOW, [GROUP]).groups:
                    print("moved:", moved.group, *moved.troubles())
            print("billed in west:", *bill(west.bootstrap, "east.orders", ORDERS - BILLED_IN_EAST))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory))
