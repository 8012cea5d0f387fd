"""Shorten what a mirror takes its time for, so that a unit of work does not wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Final
from unittest.mock import patch

import ottla
from ottla_mirror.clusters import cluster
from ottla_mirror.copying import copier, copy_watch
from ottla_mirror.groups import group_sync
from ottla_mirror.machines import mirror_records
from ottla_mirror.machines import sync_retention as retention_machine
from ottla_mirror.syncing import sync_retention, topic_sync

_SHORT: Final[tuple[tuple[ModuleType, str, float], ...]] = (
    (cluster, "_LOOK_S", 1.0),
    (topic_sync, "_LOOK_S", 1.0),
    (topic_sync, "_RARELY_S", 1.0),
    (topic_sync, "_MISSED", 4),
    (copy_watch, "_LOOK_S", 1.0),
    (copier, "_COMMIT_S", 0.2),
    (copier, "_AGAIN_S", 0.3),
    (copier, "_AGAIN_MOST_S", 1.0),
    (group_sync, "_LOOK_S", 1.0),
    (group_sync, "_LIST_S", 1.0),
    (sync_retention, "_LOOK_S", 1.0),
    (mirror_records, "PART", 4),
    (retention_machine, "PART", 4),
    (retention_machine, "MOST_KEYS", 8),
)
"""Seconds between two looks, commits or tries; the number of looks after which a deleted copy is recreated, later than
the watch's second look; and in how many offsets of the source one offset sync is enough."""

_FORGETS: Final = {"metadata_max_idle": 1.0, "metadata_max_age": 1.0}
"""After so many seconds a producer has forgotten a topic that it does not write to."""


@contextmanager
def shortened() -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, value in _SHORT:
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(patch.dict(ottla.Producer.__init__.__kwdefaults__, _FORGETS))
        yield
