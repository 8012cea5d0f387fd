"""`python -m tests.faults.disks.replays NAME`: any order of events with one rule broken, until a check finds it.

`sound` breaks none: then nothing may be found. The last line is {"found": …, "runs": …}.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import test_election_model as model
from test_election_model import Elections
from tests.faults.put_in_place import put_in_place

import ottla_controller.machines.election
import ottla_controller.machines.min_isr
import ottla_controller.machines.recovery
from ottla_broker.machines.offsets import HighWatermark, LogEndOffset
from ottla_broker.machines.partition import Leader
from ottla_controller.machines.availability import Availability, available
from ottla_controller.machines.election import decide_reconcile
from ottla_controller.machines.partition import TopicConfigs
from ottla_core.cluster.image import Broker, Change, ClusterImage, Partition
from ottla_core.model import PartitionId

SEEDS: Final = 60
_LOOKS: Final = 0.2
"""After so many steps of all the dearer checks are made."""

_BACKUP_STEPS: Final = 30


class Electable(Elections):
    """What the model checks of each step, not of how partitions look; and that who calls itself alone is right, and
    nobody with a full disk is preferred."""

    def begin(self) -> None:
        super().begin()
        self._backup = self.image

    def check_form(self) -> None:
        if self.random.random() < 1 / _BACKUP_STEPS:
            self._backup = self.image
        if self.unclean_allowed or self.random.random() > _LOOKS:
            return
        for id_, partition in self.image.partitions.items():
            if partition.leader in self.image.brokers:
                self._check_alone(id_, partition)
                self._check_full(id_, partition)
            self._check_restored(id_)

    def _check_alone(self, id_: PartitionId, partition: Partition) -> None:
        """Whoever else is there alone is not elected as things stand, where the leader has proved that."""
        leader = Leader(
            partition.leader,
            partition,
            log_end_offset=LogEndOffset(0),
            high_watermark=HighWatermark(0),
            now=0.0,
            live={},
            min_isr=self.min_isr,
        )
        if not leader.is_alone or any(b in self.tail_lost for b in partition.replicas):
            return
        for b in set(partition.replicas) - {partition.leader}:
            if b in self.image.brokers and not partition.recovering:
                gone = [other for other in self.image.brokers if other != b]
                after = self._settled(id_, gone=gone, full=())
                assert after.leader != b, "the leader is alone, it says, and another one is elected"

    def _check_full(self, id_: PartitionId, partition: Partition) -> None:
        """The leader goes, and the next in the order of the replicas is full."""
        there = available(self.image)
        heirs = [
            b
            for b in partition.replicas
            if b in partition.isr and b != partition.leader and b in there.willing and b not in there.lost(partition)
        ]
        if len(heirs) > 1:
            after = self._settled(id_, gone=[partition.leader], full=heirs[:1])
            assert after.leader in heirs[1:], "a full disk leads where one with room could"

    def _check_restored(self, id_: PartitionId) -> None:
        """The metadata is what it was at the last backup; all register, and know of later lives."""
        lives = {b: replace(life, ahead_of=self._backup.revision) for b, life in self.image.brokers.items()}
        changes = [Change(("broker", b), lives.get(b)) for b in range(model.BROKERS)]
        image = self._backup.with_changes(changes, self.image.revision + 1)
        for settled in decide_reconcile(image, [id_]).response:
            assert not settled.elected or settled.after.leader in self.complete[id_], "elected by the backup's ISR"

    def _settled(self, id_: PartitionId, *, gone: list[int], full: list[int] | tuple[int, ...]) -> Partition:
        changes = [Change(("broker", b), None) for b in gone]
        changes += [Change(("broker", b), replace(self.image.brokers[b], read_only=True)) for b in full]
        image = self.image.with_changes(changes, self.image.revision + 1)
        moved = decide_reconcile(image, [id_]).response
        return moved[0].after if moved else image.partitions[id_]


def _directory_id_ignored() -> None:
    """Neither elections nor those who ask the logs look at it."""
    witnesses = ottla_controller.machines.recovery._witnesses

    def blind(image: ClusterImage, configs: TopicConfigs, id_: PartitionId, partition: Partition) -> list[Broker]:
        return witnesses(image, configs, id_, replace(partition, directories={}))

    ottla_controller.machines.recovery._witnesses = blind
    Availability.has_moved = lambda *_: False


def _elr_kept_after_an_unclean_stop() -> None:
    """Neither the controller nor the broker itself minds that it is in an ELR."""

    def relied_upon(image: ClusterImage, broker_id: int) -> bool:
        return any(broker_id in (p.leader, *p.isr) for p in image.partitions.values())

    def lost(self: Availability, partition: Partition) -> frozenset[int]:
        return frozenset(b for b in partition.isr if b in self.tail_lost or self.has_moved(partition, b))

    Availability.lost = lost
    model.is_relied_upon = relied_upon  # type: ignore[attr-defined]  # where it is looked up


def _elr_kept_when_min_isr_is_lowered() -> None:
    """The partition is written, and its ELR stays."""

    def kept(partition: Partition) -> Partition:
        return replace(partition, partition_epoch=partition.partition_epoch + 1)

    ottla_controller.machines.min_isr.without_elr = kept  # type: ignore[attr-defined]  # where it is looked up


def _sole_member_proof_without_the_elr() -> None:
    Leader._electable = lambda self: {*self._maximal_isr()}


def _full_disk_electable() -> None:
    _see_brokers_as(lambda there, image: replace(there, read_only=frozenset()))


def _backups_isr_believed() -> None:
    _see_brokers_as(lambda there, image: replace(there, restored=image.restored.count))


def _see_brokers_as(blind: Callable[[Availability, ClusterImage], Availability]) -> None:
    """Elections have, of who is there, what `blind` leaves."""

    def seen(image: ClusterImage, within_grace: frozenset[int] = frozenset()) -> Availability:
        return blind(available(image, within_grace), image)

    put_in_place(ottla_controller.machines.election, "available", seen)


REPLAYS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "sound": lambda: None,
        "directory-id-ignored": _directory_id_ignored,
        "elr-kept-after-an-unclean-stop": _elr_kept_after_an_unclean_stop,
        "elr-kept-when-min-insync-replicas-is-lowered": _elr_kept_when_min_isr_is_lowered,
        "sole-member-proof-without-the-elr": _sole_member_proof_without_the_elr,
        "backups-isr-believed": _backups_isr_believed,
        "full-disk-electable": _full_disk_electable,
    }
)


def main(arguments: list[str]) -> int:
    REPLAYS[arguments[0]]()
    for seed in range(SEEDS):
        try:
            run(seed)
        except AssertionError as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            print(json.dumps({"found": f"seed {seed}, {at.name}: {str(error) or at.line}", "runs": str(seed + 1)}))
            return 0
    print(json.dumps({"found": "", "runs": str(SEEDS)}))
    return 0


def run(seed: int) -> None:
    elections = Electable(seed)
    for _ in range(model.STEPS):
        elections.step()
    elections.heal()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
