"""Real processes under SIGKILL and SIGSTOP while clients go on: nothing acknowledged is lost, nothing hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from children import stop
from waiting import LIMIT_S

import ottla
from ottla_core.errors import ErrorCode, OttlaError
from ottla_stack.running import RunningStack, wait_for

KILLS = 9
"""Three of each broker; `make faults` has thirty of leaders and more."""
FLOOR = 50_000
BURST = 1_000
PAUSE_S = 0.08
"""Between bursts: a load that takes whole processors shows nothing more."""


class Load:
    """One producer on a thread of its own: counts up in bursts; what was acknowledged is kept with its place."""

    def __init__(self, bootstrap: str, topic: str, acks: Any) -> None:
        self.topic = topic
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.errors: list[Exception] = []
        self._producer = ottla.Producer(bootstrap, topic=topic, acks=acks, value="bytes", linger=0.002)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load-{topic}")

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_S):
            sent = [(n, self._producer.send(b"%d" % n)) for n in range(number, number + BURST)]
            number += BURST
            for n, delivery in sent:
                try:
                    metadata = delivery.result(timeout=LIMIT_S)
                    self.acknowledged[n] = (metadata.partition, metadata.offset)
                except OttlaError as error:
                    self.errors.append(error)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(timeout=LIMIT_S)
            self._producer.close()

    def lost(self, bootstrap: str) -> list[int]:
        """Acknowledged numbers that are not where they were said to be."""
        acknowledged = self.acknowledged.copy()
        places: dict[tuple[int, int], bytes | None] = {}
        with ottla.Consumer(self.topic, bootstrap=bootstrap, start="earliest", stop="end", value="bytes") as consumer:
            for record in consumer:
                places[record.partition, record.offset] = record.value
        return [n for n, place in acknowledged.items() if places.get(place) != b"%d" % n]


@pytest.mark.rule(58)
@pytest.mark.feature(31, 32)
def test_nothing_acknowledged_is_lost_by_kill_9_of_brokers(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "s", group_coordinators=0) as stack:
        topics = ottla.Admin(stack.bootstrap).topics
        loads = []
        for acks, replicas in ((1, 1), ("all", 3)):  # acks=1 asks for one log, and gets what that is worth
            topics.create(f"acks-{acks}", partitions=6, replicas=replicas)
            loads.append(Load(stack.bootstrap, f"acks-{acks}", acks))
        with loads[0].running(), loads[1].running():
            for kill in range(KILLS):
                stack.restart(f"broker-{kill % 3}", number=signal.SIGKILL)
            wait_for(lambda: min(len(load.acknowledged) for load in loads) >= FLOOR, f"{FLOOR} acknowledgements each")
        for load in loads:
            lost = load.lost(stack.bootstrap)
            assert not lost, f"{len(lost)} acknowledged records of {load.topic} are lost, from {lost[0]} on"
            assert len(load.acknowledged) >= FLOOR
            print(f"{load.topic}: {len(load.acknowledged)} acknowledged over {KILLS} kills, {len(load.errors)} failed")
            assert load.errors == []


@pytest.mark.feature(116, 119, 120)
def test_a_topic_is_created_within_5_s_of_kill_9_of_the_active_controller(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "s", brokers=1, controllers=2, group_coordinators=0) as stack:
        admin = ottla.Admin(stack.bootstrap)
        active = admin.cluster.describe().controller_id
        assert active >= 0
        killed_at = time.monotonic()
        os.kill(stack.pid(f"controller-{active}"), signal.SIGKILL)
        admin.topics.create("after", partitions=2)
        seconds = time.monotonic() - killed_at
        print(f"created {seconds:.2f} s after the kill")
        assert seconds < 5.0
        assert "after" in admin.topics.list()


def created(admin: ottla.Admin, name: str) -> bool:
    """Whether the topic could be created: not while leases that lapsed at etcd's return are taken again."""
    try:
        admin.topics.create(name, partitions=3)
    except OttlaError as error:
        if not (error.retriable or error.code == ErrorCode.INVALID_REPLICATION_FACTOR):
            raise
        return False
    return True


@pytest.mark.feature(124)
def test_produce_and_fetch_go_on_while_etcd_is_stopped_for_20_s(tmp_path: Path) -> None:
    with RunningStack(tmp_path / "s", group_coordinators=0) as stack:
        admin = ottla.Admin(stack.bootstrap)
        admin.topics.create("t", partitions=3)
        load = Load(stack.bootstrap, "t", "all")
        with load.running():
            wait_for(lambda: load.acknowledged, "the first acknowledgement")
            etcd = stack.pid("etcd")
            stop(etcd)
            stopped_at = time.monotonic()
            try:
                with pytest.raises(OttlaError) as refused:
                    ottla.Admin(stack.bootstrap).topics.create("impossible", timeout=3)
                assert refused.value.retriable
                rounds = 0
                while time.monotonic() - stopped_at < 20:
                    before = len(load.acknowledged)
                    wait_for(lambda b=before: len(load.acknowledged) > b + 5 * BURST, "produce to go on", limit_s=5)
                    assert load.lost(stack.bootstrap) == []
                    rounds += 1
            finally:
                os.kill(etcd, signal.SIGCONT)
            wait_for(lambda: created(admin, "possible"), "a topic to be created again", limit_s=20)
            wait_for(lambda: len([b for b in admin.cluster.describe().brokers if not b.fenced]) == 3, "all to be back")
        assert load.errors == []
        assert rounds >= 3
        assert load.lost(stack.bootstrap) == []
