"""Cluster images for tests of machines, and how a decision changes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla_controller.machines.decision import Decision
from ottla_controller.machines.topics import NewTopic, decide_create_topic
from ottla_core.cluster.follower import Listener
from ottla_core.cluster.image import Broker, Change, ClusterImage
from ottla_core.model import TopicId


class Metadata:
    """Images as a test gives them."""

    def __init__(self) -> None:
        self.image = ClusterImage("test")
        self._listeners: list[Listener] = []

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def become(self, image: ClusterImage) -> None:
        old, self.image = self.image, image
        for listener in self._listeners:
            listener(old, image)


def image_of(brokers: int = 3, *, racks: Sequence[str] = (), fenced: Sequence[int] = ()) -> ClusterImage:
    """A cluster of registered brokers 0, 1, …, whose epochs are 100, 101, …"""
    registered = (
        Broker(n, 100 + n, f"directory-{n}", f"host-{n}:9650", rack=racks[n] if racks else "", fenced=n in fenced)
        for n in range(brokers)
    )
    return ClusterImage("test").with_changes([Change(("broker", b.id), b) for b in registered], 200)


def after(image: ClusterImage, decision: Decision[Any]) -> ClusterImage:
    """The image once `decision` is written: at the next revision, as the store stamps it."""
    revision = image.revision + 1
    changes = [Change(w.change.key, _stamped(w.change.value, revision)) for w in decision.writes]
    return image.with_changes(changes, revision)


def with_topic(
    image: ClusterImage, name: str, partitions: int = 1, *, number: int = 1, configs: Mapping[str, str] | None = None
) -> ClusterImage:
    decision = decide_create_topic(image, NewTopic(name, partitions, 1, configs or {}), topic_id=topic_id(number))
    return after(image, decision)


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def _stamped(value: Any, revision: int) -> Any:
    return value if value is None else replace(value, mod_revision=revision)
