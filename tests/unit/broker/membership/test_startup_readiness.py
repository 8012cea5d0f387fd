"""What a broker waits for between its registration and its first leader."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logs import SMALL
from waiting import until

from ottla_broker.membership.startup_readiness import StartupReadiness
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.soundness import Incarnation
from ottla_core.cluster.image import Broker, ClusterImage, Partition, Restored
from ottla_core.model import PartitionId, TopicId

ME = Broker(1, 7, "d" * 22, "localhost:1", ahead_of=3)


class Applied:
    def __init__(self) -> None:
        self.image = ClusterImage("c", 7, brokers={1: ME})
        self.looked = False

    async def until(self, condition: Any, *, timeout: float) -> None:
        await until(lambda: condition(self.image))

    def look_at_all(self) -> None:
        self.looked = True


@pytest.mark.story("unfenced-before-the-restoration-is-counted")
async def test_who_is_ahead_of_the_metadata_waits_until_they_are_known_to_be_restored(tmp_path: Path) -> None:
    """Else its directory would forget what it knew, and a second start would believe the backup."""
    log_dir = LogDir.open(tmp_path, DirectoryIdentity("c", 1, "d" * 22), SMALL, now_ms=0)
    replicas: Any = Applied()
    threads = DiskThreads()
    fit = asyncio.create_task(StartupReadiness(replicas, lambda: log_dir, threads, "now").until(7, 7))
    done, _ = await asyncio.wait([fit], timeout=0.1)
    assert not done
    assert log_dir.incarnation is None
    replicas.image = ClusterImage("c", 8, brokers={1: ME}, restored=Restored(1, mod_revision=8))
    assert not replicas.looked
    await fit
    assert log_dir.incarnation == Incarnation("now", 7)
    assert replicas.looked, "the logs may lead only now"
    log_dir.abandon()
    await threads.stop()


@pytest.mark.story("unfenced-before-it-left-the-isr")
@pytest.mark.rule(21)
@pytest.mark.parametrize("relied_upon", [{"isr": (1, 2)}, {"isr": (2,), "elr": (1,)}, {"isr": (2,), "leader": 1}])
async def test_who_may_have_lost_records_waits_until_no_partition_relies_on_it(
    tmp_path: Path, relied_upon: dict[str, Any]
) -> None:
    """It would be elected for records that it lacks."""
    log_dir = LogDir.open(tmp_path, DirectoryIdentity("c", 1, "d" * 22), SMALL, now_ms=0)
    assert log_dir.may_have_lost_tail
    replicas: Any = Applied()
    partition = PartitionId(TopicId(b"t" * 16), 0)
    me = replace(ME, ahead_of=None, unclean=True)

    def image(**fields: Any) -> ClusterImage:
        led = Partition(replicas=(1, 2), leader_epoch=3, **{"leader": 2, **fields})
        return ClusterImage("c", 7, brokers={1: me}, partitions={partition: led})

    replicas.image = image(**relied_upon)
    threads = DiskThreads()
    fit = asyncio.create_task(StartupReadiness(replicas, lambda: log_dir, threads, "now").until(7, 7))
    done, _ = await asyncio.wait([fit], timeout=0.1)
    assert not done
    assert (log_dir.may_have_lost_tail, log_dir.incarnation, replicas.looked) == (True, None, False)
    replicas.image = image(isr=(2,))
    await fit
    assert (log_dir.may_have_lost_tail, log_dir.incarnation) == (False, Incarnation("now", 7))
    log_dir.abandon()
    await threads.stop()
