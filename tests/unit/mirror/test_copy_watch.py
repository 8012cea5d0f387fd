"""The watch of the copies' topic ids, against a scripted admin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.admin import TopicsFound
from ottla_mirror.copying import copy_watch
from ottla_mirror.copying.copy_watch import CopyWatch
from ottla_mirror.machines.progress import CopiedPartition
from ottla_mirror.syncing import topic_sync

ID = TopicId(b"i" * 16)


def test_a_copy_counts_as_gone_after_two_looks_and_one_that_a_broker_does_not_know_yet_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copy_watch, "_LOOK_S", 0.0)
    answers = [{"b": ID}, {"a": ID, "b": ID}, {"b": ID}, {"b": ID}]
    seen: list[Mapping[str, TopicId]] = []

    class Target:
        @contextmanager
        def open_admin(self, name: str) -> Any:
            yield self

        def look_up(self, names: Collection[str]) -> TopicsFound:
            seen.append(watch.ids)
            if not answers:
                watch.stopping.set()
            ids = answers.pop(0) if answers else {}
            return TopicsFound(ids, {name for name in names if name not in ids and name != "doubted"})

    copied = [CopiedPartition(TopicPartition(name, 0), TopicPartition(name, 0)) for name in ("a", "b", "doubted")]
    watch = CopyWatch("east", cast(Any, Target()), lambda: copied)
    watch.work()
    assert seen == [{}, {"b": ID}, {"a": ID, "b": ID}, {"b": ID}, {"a": bytes(16), "b": ID}]


def test_the_watch_looks_twice_before_a_copy_is_recreated() -> None:
    assert copy_watch._LOOK_S * 3 < topic_sync.RECREATED_AFTER_S
