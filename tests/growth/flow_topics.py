"""Count the records and the keys of what the flows have in the target for themselves."""

from __future__ import annotations

from collections import Counter

from tests.growth.mirrored_work import MirroredWork
from tests.growth.roles import FLOW
from tests.growth.walk import Structure
from tests.growth.work import Work

import ottla


def flow_topics(work: Work) -> Counter[Structure]:
    """Count the keys that have a value, and all records that compaction has left."""
    sizes: Counter[Structure] = Counter()
    for topic in work.mirrored.own_topics:
        values = _values(work.mirrored, topic)
        kind = ".".join(part for part in topic.split(".")[:2] if not part.isalpha() or part == "checkpoints")
        sizes[Structure(FLOW, f"records of {kind}", "items")] += len(values)
        living = dict(values)
        sizes[Structure(FLOW, f"keys of {kind}", "items")] += sum(value is not None for value in living.values())
    return sizes


def _values(work: MirroredWork, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    with ottla.Consumer[bytes, bytes](
        topic, bootstrap=work.bootstrap, start="earliest", stop="end", key="bytes", value="bytes"
    ) as consumer:
        return [(record.key, record.value) for record in consumer]
