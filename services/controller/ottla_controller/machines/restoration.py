"""Metadata that was restored from a backup may be older than the logs, and proves nothing about them (rule C18).

An operator declares it, or a broker registers whose directory knows a later incarnation than the store. One key counts
the restorations. A partition that was not settled since the last one is in doubt, without a leader, and its logs are
asked (`machines.recovery`). Producer ids and the epochs of shards must not be given out twice, so they jump over a gap.
The key is written last: if the gaps are there without it, only numbers are lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Change, ClusterImage, Restored
from ottla_core.model import NO_OWNER

PRODUCER_ID_GAP: Final = 10**12
SHARD_EPOCH_GAP: Final = 1_000_000
"""A gap is larger than what was given out since any backup. For producer ids it stands for a billion starts of brokers,
and for owners of shards for a million."""


def decide_restored(image: ClusterImage) -> Decision[int]:
    """Count one more restoration; the response is how many there were."""
    producer_ids, restored = image.producer_ids, image.restored
    seen = ReliedOn(keys.PRODUCER_IDS, mod_revision=producer_ids.mod_revision)
    next_ids = replace(producer_ids, next=producer_ids.next + PRODUCER_ID_GAP)
    writes = [Write(Change(keys.PRODUCER_IDS, next_ids), (seen,))]
    for (kind, number), shard in image.shards.items():
        key = keys.shard(kind, number)
        released = replace(shard, owner=NO_OWNER, incarnation=0, epoch=shard.epoch + SHARD_EPOCH_GAP)
        writes.append(Write(Change(key, released), (ReliedOn(key, mod_revision=shard.mod_revision),)))
    seen = ReliedOn(keys.RESTORED, mod_revision=restored.mod_revision)
    writes.append(Write(Change(keys.RESTORED, Restored(restored.count + 1, image.seq + 1)), (seen,)))
    return Decision(restored.count + 1, tuple(writes))
