"""ottla's SDK: what the Kafka clients write, it reads, and the other way about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from peers.client import Rec

import ottla


class Sdk:
    name = "SDK"
    version = ""

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Iterable[Rec],
        *,
        codec: Any = "none",
        partition: int = 0,
    ) -> list[int]:
        with ottla.Producer(bootstrap, topic=topic, key="bytes", value="bytes", compression=codec) as producer:
            sent = [
                producer.send(
                    r.value, key=r.key, partition=partition, headers=list(r.headers), timestamp=r.timestamp_ms
                )
                for r in records
            ]
            return [delivery.result().offset for delivery in sent]

    def consume(self, bootstrap: str, topic: str, count: int, *, offset: int = 0, partitions: int = 1) -> list[Rec]:
        """All that there is now."""
        with ottla.Consumer(
            topic, bootstrap=bootstrap, start="earliest", stop="end", key="bytes", value="bytes"
        ) as consumer:
            return [Rec(r.key, r.value, tuple(r.headers), r.timestamp) for r in consumer]
