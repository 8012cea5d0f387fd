"""A log may show that the metadata is older than the data, because the store was restored (rule C18)."""

from __future__ import annotations

from ottla_core.cluster.image import Partition
from ottla_core.model import NO_LEADER


def is_older(partition: Partition, latest_epoch: int) -> bool:
    """Return whether the metadata is from before a log of the partition came to `latest_epoch`.

    It can tell only this far: no batch has an epoch that was not given yet, or one without a leader.
    """
    return latest_epoch >= partition.leader_epoch + (partition.leader != NO_LEADER)
