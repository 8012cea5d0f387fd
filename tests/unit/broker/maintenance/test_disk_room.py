"""A broker whose disk is full says so in its registration, and takes it back by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from logs import SMALL
from waiting import until

from ottla_broker.maintenance import disk_room
from ottla_broker.maintenance.disk_room import DiskRoom
from ottla_broker.membership.own_registration import OwnRegistration
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_dir import LogDir
from ottla_core.clock import ManualClock
from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Put

KEY = keys.broker(3)
ME = Broker(3, 0, "d" * 22, "127.0.0.1:9653", fenced=False, incarnation="mine")


async def put(store: MemoryStore, broker: Broker) -> None:
    await store.txn([], [Put(keys.key_text("c", KEY), encode(KEY, broker))], timeout=1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_room, "_TICK_S", 0.005)
    monkeypatch.setattr(disk_room, "_TRY_S", 0.01)


@pytest.mark.story("full-disk-is-not-told")
async def test_the_cluster_is_told_of_a_full_disk_and_that_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    await put(store, ME)
    metadata = MetadataFollower(store, "c")
    metadata.start()
    log_dir = LogDir.open(tmp_path, DirectoryIdentity("c", 3, "d" * 22), SMALL, now_ms=ManualClock().wall_ms())
    room = DiskRoom(OwnRegistration(store, metadata, lambda: 3, "mine"), lambda: log_dir, DiskThreads())
    await room.start()

    def flags() -> list[bool]:
        return [b.read_only for b in metadata.image.brokers.values()]

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "keep_reserve", lambda disk: None)
        log_dir.disk.full = "no space left"
        await until(lambda: flags() == [True])
        for change in ({"fenced": True}, {"incarnation": "another's"}):
            await put(store, replace(ME, **change))
            await until(lambda: flags() == [False])
            revision = metadata.image.revision
            await put(store, replace(ME, read_only=False, rack="seen" + str(change), **change))
            await until(lambda revision=revision: metadata.image.revision > revision)
            assert flags() == [False], "it is not ours to change"
        await put(store, replace(ME, rack="registered anew"))
        await until(lambda: flags() == [True])
        assert metadata.image.brokers[3].rack == "registered anew", "what others wrote stays"
    await until(lambda: flags() == [False])
    assert log_dir.disk.full == ""
    await room.stop()
    await metadata.stop()
    log_dir.abandon()
