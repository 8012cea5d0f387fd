"""Decides how many of the existing records a micro-batch takes: as Spark's own source does it, and by bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ottla_core.model import TopicPartition
from pyspark_ottla.machines.offsets import Offsets


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The most offsets and bytes of a micro-batch. It waits for `min_offsets`, but at most for `max_delay_s`."""

    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = 900.0


class Admission:
    """Decides where a micro-batch ends. `now` is monotonic seconds."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._last_at = -math.inf  # the first batch of a run never waits

    def end_of(
        self,
        start: Offsets,
        latest: Offsets,
        now: float,
        record_bytes: Mapping[TopicPartition, float],
        *,
        patient: bool = True,
    ) -> Offsets | None:
        """Return where a batch that begins at `start` ends, or None for "not yet", which only a `patient` caller gets.

        `record_bytes` is about what a record of each partition takes. It matters only with a limit in bytes.
        """
        limits = self._limits
        backlog = {p: max(0, offset - start.get(p, offset)) for p, offset in latest.items()}
        waiting = sum(backlog.values())
        too_few = limits.min_offsets is not None and waiting < limits.min_offsets
        if patient and too_few and now - self._last_at < limits.max_delay_s:
            return None
        self._last_at = now
        most = limits.max_offsets
        if limits.max_bytes is not None:
            total_bytes = sum(count * record_bytes.get(p, 0.0) for p, count in backlog.items())
            if total_bytes > limits.max_bytes:
                by_bytes = max(1, int(waiting * limits.max_bytes / total_bytes))
                most = by_bytes if most is None else min(most, by_bytes)
        if most is None or waiting <= most:
            return {p: max(offset, start.get(p, offset)) for p, offset in latest.items()}
        return share_out(start, backlog, most)


def share_out(start: Offsets, backlog: Mapping[TopicPartition, int], most: int) -> Offsets:
    """Share out `most` offsets over the partitions in proportion to what waits in each: exactly `most`, with none left
    over.

    Each partition in which something waits gets one first, so that no small one is starved by a large one that grows.
    If there are more partitions than `most`, each gets one, as in Spark's own source.
    """
    admitted = {partition: min(1, count) for partition, count in backlog.items()}
    left, waiting = most - sum(admitted.values()), sum(backlog.values()) - sum(admitted.values())
    if left > 0 and waiting > 0:
        shares = {p: left * (count - admitted[p]) for p, count in backlog.items()}
        admitted = {p: count + shares[p] // waiting for p, count in admitted.items()}
        by_remainder = sorted(backlog, key=lambda partition: -(shares[partition] % waiting))
        for partition in by_remainder[: most - sum(admitted.values())]:
            admitted[partition] += 1
    return {partition: start[partition] + count for partition, count in admitted.items()}
