"""A stack of three brokers, and what is measured of it alone."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from typing import Final

from loadtest.kafka.traffic import observed
from loadtest.rows.footprint import cpu_seconds
from loadtest.scale.clients import LIMIT_S, REPLICAS, Clients
from loadtest.scale.sdk_consumer import SdkConsumer
from loadtest.scale.sessions import Address, idle_consumers, longest_wait_ms
from ottla_core.host_port import HostPort
from ottla_stack.running import RunningStack
from ottla_stack.supervisor import not_ready
from ottla_stack.view import resident_mb

_METADATA_REQUESTS: Final = 11
_IDLE_TOPIC: Final = "idle"
_IDLE_PARTITIONS: Final = 30


class Ottla:
    def __init__(self, stack: RunningStack, clients: Clients) -> None:
        self.stack: Final = stack
        self.clients: Final = clients
        self.brokers: Final = [f"broker-{n}" for n in range(REPLICAS)]

    def resident_kb(self) -> float:
        return 1024 * sum(resident_mb(self.stack.pid(name)) for name in self.brokers)

    def idle_core_pct(self, seconds: float) -> float:
        """Return the CPU use of an idle broker, in percent of one core."""
        began, before = time.monotonic(), self._cpu_s()
        time.sleep(seconds)
        return 100 * (self._cpu_s() - before) / (time.monotonic() - began) / REPLICAS

    def cpu_s_a_million(self, records: int) -> float:
        """Return the CPU of all processes with acks=all, as in `make bench-kafka`; the median of three runs."""
        side, taken = self.clients.side, []
        for n in range(3):
            side.create_topic(f"million-{n}", 6, REPLICAS)
            os.sync()  # so that the disk does not still write what another has left
            topic = ("--topic", f"million-{n}", "--records", str(records), "--acks", "all")
            taken.append(float(observed(side, "kafka.produce", side.bootstrap, *topic)["cpu_s"]) / records * 1e6)
            side.delete_topics()
        return statistics.median(taken)

    def loop_hold_ms(self) -> float:
        """For how long a broker lets others wait while it answers Metadata of all topics."""

        async def longest() -> float:
            waits = [await longest_wait_ms(a) for _ in range(_METADATA_REQUESTS) for a in self._addresses()]
            return statistics.median(waits)

        return asyncio.run(longest())

    def idle_sessions_cpu_ratio(self, topic: str, partitions: int, count: int, records: int) -> float:
        """CPU time a record beside so many idle consumers, to that without them."""
        self.clients.create(_IDLE_TOPIC, _IDLE_PARTITIONS)
        addresses = self._addresses()
        leaders = [(n, addresses[p.leader]) for n, p in self.clients.partitions_of(_IDLE_TOPIC).items()]

        async def beside() -> float:
            async with idle_consumers(_IDLE_TOPIC, leaders, count, LIMIT_S):
                measured = await asyncio.to_thread(self.clients.one_at_a_time, topic, partitions, records)
                return measured[1]

        without = self.clients.one_at_a_time(topic, partitions, records)[1]
        return asyncio.run(beside()) / without

    def sdk_consumer(self, few: str, many: str, partitions: int, records: int, pairs: int) -> dict[str, float]:
        """CPU time a record, of the cluster and of a consumer of topic `many`, to that of topic `few`; and ms at the
        median until it was read."""
        with SdkConsumer(self.stack.bootstrap, few) as of_few, SdkConsumer(self.stack.bootstrap, many) as of_many:

            def measured(topic: str, consumer: SdkConsumer) -> tuple[float, float]:
                before = consumer.cpu_s()
                p50_ms, cpu_ms = self.clients.one_at_a_time(topic, partitions, records, consumer.until_read)
                return p50_ms, cpu_ms + 1000 * (consumer.cpu_s() - before) / records

            rounds = [(measured(few, of_few), measured(many, of_many)) for _ in range(pairs)]
        return {
            "sdk_consumer_start_s": of_many.start_s,
            "sdk_consumer_p50_ms": statistics.median(large[0] for _, large in rounds),
            "sdk_consumer_cpu_ratio": statistics.median(large[1] / small[1] for small, large in rounds),
        }

    def restart_s(self, *, killed: bool) -> float:
        """From the start of the new process until the broker is back in every ISR."""
        self.clients.until(self.clients.is_whole)
        name, before = self.brokers[0], self.stack.pid(self.brokers[0])
        process = self.stack.process(name)
        assert process is not None, "it runs"
        process.identity.send(signal.SIGKILL if killed else signal.SIGTERM)
        while (now := self.stack.process(name)) is None or now.identity.pid == before:
            time.sleep(0.01)
        began, admin = time.monotonic(), HostPort(self.stack.plan.host, now.admin_port)
        self.clients.until(lambda: not_ready(admin) is None and self.clients.is_whole())
        return time.monotonic() - began

    def failover_s(self) -> tuple[float, int]:
        """From kill -9 until the last partition that the broker led has acknowledged a record; how many it led."""
        led = self.clients.led_by(1)
        process = self.stack.process(self.brokers[1])
        assert process is not None, "it runs"
        began = time.monotonic()
        process.identity.send(signal.SIGKILL)
        self.clients.accept_all(led)
        return time.monotonic() - began, len(led)

    def _cpu_s(self) -> float:
        return sum(cpu_seconds(self.stack.pid(name)) for name in self.brokers)

    def _addresses(self) -> list[Address]:
        """Return the addresses of the brokers' Kafka listeners, by broker id."""
        brokers = self.clients.admin.list_topics(timeout=LIMIT_S).brokers
        return [(str(brokers[n].host), brokers[n].port) for n in sorted(brokers)]
