"""Topics of one cluster, each for one test, seen from the other side: by the SDK, and on the broker's disk."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import ottla
from ottla_core.records.batch import iter_headers
from ottla_core.records.compression import Codec
from ottla_stack.cluster import Cluster

_names = (f"compat-{n}" for n in itertools.count())


class Topics:
    def __init__(self, bootstrap: str) -> None:
        self._admin = ottla.Admin(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def create(self, partitions: int = 1, replicas: int | None = None, config: Mapping[str, str] | None = None) -> str:
        name = next(_names)
        self.create_as(name, partitions, replicas, config)
        return name

    def create_as(
        self, name: str, partitions: int = 1, replicas: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic whose name counts."""
        self._admin.topics.create(name, partitions=partitions, replicas=replicas, config=config)

    def delete(self, topic: str) -> None:
        self._admin.topics.delete(topic)

    def end(self, topic: str) -> int:
        """Return the end of partition 0: the offset of the next record."""
        return self._admin.topics.offsets(topic)[0] or 0

    def leader(self, topic: str) -> int:
        return self._admin.topics.describe(topic)[0].partitions[0].leader

    def exists(self, topic: str) -> bool:
        return self._admin.topics.exists(topic)

    def folder(self, cluster: Cluster, topic: str) -> Path:
        """Where the first broker keeps partition 0."""
        topic_id = self._admin.topics.describe(topic)[0].id
        return cluster.brokers[0].data_dir / f"{topic_id.replace('-', '')}-0"

    def codecs(self, cluster: Cluster, topic: str, offsets: range) -> set[str]:
        """How the batches with these offsets are compressed on the disk."""
        segments = [path.read_bytes() for path in self.folder(cluster, topic).glob("*.log")]
        headers = [header for segment in segments for _, header in iter_headers(segment)]
        return {Codec(header.codec).label for header in headers if header.base_offset in offsets}
