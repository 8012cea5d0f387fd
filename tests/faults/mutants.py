"""`python -m tests.faults.mutants NAME broker …`: a service with one rule broken on purpose. The checker must find out.

A check that never fails proves nothing: each mutant is the whole product but for one rule, and the fault that this rule
is there for (`mutant_rows`) has to end in a finding.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.__main__
import ottla_broker.kafka.network.inbound
import ottla_broker.machines.producers
import ottla_broker.replication.high_watermark_waiters
import ottla_broker.replication.leading
import ottla_broker.storage.log_dir
import ottla_broker.storage.producer_history
import ottla_controller.__main__
import ottla_controller.machines.isr
from ottla_broker.machines.producers import Checked, Producers
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import ClusterImage, Partition
from ottla_core.records.batch import BatchHeader


def _acks_before_the_high_watermark() -> None:
    """acks=all is answered as soon as the leader has it (rule 9)."""

    def until(self: object, offset: int) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    put_in_place(ottla_broker.replication.high_watermark_waiters.HighWatermarkWaiters, "until", until)


def _truncation_by_high_watermark() -> None:
    """Whoever becomes a follower cuts its log at its own high watermark (rule 2)."""
    become_follower = Replica._retire

    def retire(self: Any, partition: Partition) -> None:
        become_follower(self, partition)
        if self.leader_id is not None:
            self.log.truncate_to(self.offsets.high_watermark)

    put_in_place(Replica, "_retire", retire)


def _isr_without_compare_and_set() -> None:
    """The controller believes whoever proposes an ISR, however old the proposal is (rules 12 and 22)."""

    def believe(image: ClusterImage, configs: Any, leader: Any, proposal: Any, partition: Partition) -> Partition:
        isr = tuple(broker_id for broker_id, _ in proposal.isr)
        return replace(partition, isr=isr, partition_epoch=partition.partition_epoch + 1)

    put_in_place(ottla_controller.machines.isr, "check_registered", lambda *_: None)
    put_in_place(ottla_controller.machines.isr, "_altered", believe)


def _no_epoch_check() -> None:
    """A leader asks no follower in which epoch its log ends, and nobody which epoch it knows (rules 2 and 5)."""
    put_in_place(ottla_broker.replication.leading, "find_divergence", lambda *_: None)
    put_in_place(Replica, "check_epoch", lambda *_: None)


def _no_sequence_check() -> None:
    """Every batch is new (rules 25 and 26)."""

    def check(
        self: Producers, headers: Iterable[BatchHeader], next_offset: int, now_ms: int, *, begins_at_zero: bool = False
    ) -> Checked:
        for _ in headers:
            pass
        return Checked(None, {}, {})

    put_in_place(Producers, "check", check)


def _producer_state_forgotten_at_restart() -> None:
    """A log that is opened knows no producer (rule 29)."""
    put_in_place(ottla_broker.storage.producer_history.ProducerHistory, "restore", lambda *_: None)


def _announced_bytes_charged() -> None:
    """A connection is charged for the whole of a frame as soon as it is announced."""
    put_in_place(ottla_broker.kafka.network.inbound.Inbound, "held_bytes", property(lambda self: self.whole_bytes))


def _marker_without_epoch() -> None:
    """A clean stop is trusted whichever incarnation it names, even in an old copy of the volume (against rule C17)."""
    put_in_place(ottla_broker.storage.log_dir.LogDir, "compare", lambda *_: False)


MUTANTS: Final = MappingProxyType(
    {
        "acks-before-the-high-watermark": _acks_before_the_high_watermark,
        "truncation-by-high-watermark": _truncation_by_high_watermark,
        "isr-without-compare-and-set": _isr_without_compare_and_set,
        "no-epoch-check": _no_epoch_check,
        "no-sequence-check": _no_sequence_check,
        "producer-state-forgotten-at-restart": _producer_state_forgotten_at_restart,
        "announced-bytes-charged": _announced_bytes_charged,
        "marker-without-epoch": _marker_without_epoch,
    }
)


def main(arguments: list[str]) -> int:
    mutant, kind, *settings = arguments
    MUTANTS[mutant]()
    sys.argv[1:] = settings
    return {"broker": ottla_broker.__main__.main, "controller": ottla_controller.__main__.main}[kind]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
