"""A follower's round: what it tells its leader, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logs import SMALL, values_batch
from replicas import PARTITION, Brokers
from waiting import until

from ottla_broker.replication import Fetcher
from ottla_broker.replication_settings import ReplicationSettings
from ottla_broker.seat import BrokerLife
from ottla_core.cluster.image import Broker, Partition
from ottla_proto import broker_pb2 as pb

BOTH = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2))


class Seated:
    secret = b"proof"

    def life(self) -> BrokerLife:
        return BrokerLife(2, 12)


class Settled:
    settings = ReplicationSettings()


class NeverAnswering:
    """A leader's end of the stream that takes a fetch and parks it for ever."""

    def __init__(self) -> None:
        self.asked: list[pb.FetchRequest] = []

    async def exchange(self, request: pb.FetchRequest, *, timeout_ms: int, timeout: float) -> pb.FetchReply:
        self.asked.append(request)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


@pytest.mark.rule(20)
async def test_a_fetch_says_only_what_is_on_the_platter_where_that_was_asked_for(tmp_path: Path) -> None:
    """flush.messages=1. The follower was killed between its write and its flush, and comes back."""
    brokers = Brokers(tmp_path, (1, 2), replace(SMALL, flush_messages=1))
    brokers.apply(BOTH)
    brokers.replicas[1].append(values_batch(b"a"), -1)
    await brokers.fetch(2, 1)
    follower = brokers.open(2)
    brokers.apply(BOTH, 2)
    assert follower.must_flush
    replicas: Any = Settled()
    seat: Any = Seated()
    fetcher = Fetcher(Broker(1, 11, "d", "localhost:1"), replicas, seat)
    stream: Any = NeverAnswering()
    fetcher.follow({PARTITION: follower})
    fetching = asyncio.create_task(fetcher.round(stream))
    await until(lambda: stream.asked)
    assert stream.asked[0].partitions[0].fetch_offset == 1
    assert follower.log.recovery_point == 1
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    await fetcher.stop()
