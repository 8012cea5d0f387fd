"""A topic is deleted and created again under one name. A record that was sent to one topic is never in another."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Final

from tests.world.client import ACKS_ALL, RawClient, batch_of, records_of
from tests.world.cluster import Cluster, create_topic
from tests.world.findings import Findings
from tests.world.process import Process

from ottla_core.errors import ErrorCode
from ottla_core.model import TopicId

NAME: Final = "passing"
_ATTEMPTS: Final = 20


class Passing:
    """This client creates the topic, writes to it, reads it and deletes it, over and over."""

    def __init__(self, cluster: Cluster, findings: Findings, random: Random) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._random: Final = random

    async def run(self, process: Process) -> None:
        raw, former = RawClient(), b""
        while True:
            await create_topic(self._cluster, self._random, NAME, {"segment.bytes": "1000"})
            topic_id = self._cluster.metadata.topics.get(NAME, b"")
            if topic_id != former:
                await self._live(process, raw, TopicId(topic_id))
                former = topic_id
            self._findings.counts["topics deleted"] += await self._delete(raw, TopicId(topic_id))
            await asyncio.sleep(self._random.uniform(0.0, 1.0))

    async def _live(self, process: Process, raw: RawClient, topic_id: TopicId) -> None:
        """Write values that name the topic's id, and read what was acknowledged."""
        acked: dict[int, bytes] = {}
        for number in range(self._random.randint(0, 30)):
            value = b"%s-%d" % (topic_id.hex().encode(), number)
            with contextlib.suppress(OSError):
                batch = batch_of(b"k", value, process.wall_ms())
                answer = await raw.produce_by_id(self._leader(), topic_id, batch, ACKS_ALL, 2.0)
                if answer.code == ErrorCode.NONE:
                    acked[answer.offset] = value
        await self._read(raw, topic_id, acked)

    async def _read(self, raw: RawClient, topic_id: TopicId, acked: dict[int, bytes]) -> None:
        offset, end = 0, max(acked, default=-1) + 1
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(OSError):
                fetched = await raw.fetch(self._leader(), NAME, topic_id, offset)
                for at, _, value in records_of(fetched.records):
                    if not (value or b"").startswith(topic_id.hex().encode()):
                        self._findings.violate(f"offset {at} of topic {topic_id.hex()} has {value!r}")
                    if at >= offset and acked.pop(at, value) != value:
                        self._findings.violate(f"offset {at} of topic {topic_id.hex()} has {value!r} now")
                offset = fetched.next_offset(offset)
            if offset >= end:
                if acked:
                    self._findings.violate(f"topic {topic_id.hex()} has lost {acked}")
                return
            await asyncio.sleep(0.2)

    async def _delete(self, raw: RawClient, topic_id: TopicId) -> bool:
        """Delete the topic. Return whether it is certainly gone."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(OSError):
                code = await raw.delete_topic(self._random.choice(self._cluster.brokers), topic_id)
                if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
                    return True
            await asyncio.sleep(0.2)
        return False

    def _leader(self) -> str:
        return f"broker-{max(0, self._cluster.metadata.leader(NAME))}"
