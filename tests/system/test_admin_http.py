"""The admin port over a real socket: metrics that a Prometheus parser takes, health, readiness."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from waiting import until

from ottla_core.process import admin_http
from ottla_core.process.admin_http import AdminHttp
from ottla_core.telemetry import Metrics, Table


class Admin:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.why: str | None = "not registered yet"
        self.http = AdminHttp("127.0.0.1", 0, self.metrics, lambda: self.why)

    async def get(self, path: str) -> tuple[int, str]:
        def ask() -> tuple[int, str]:
            try:
                with urlopen(f"http://127.0.0.1:{self.http.port}{path}", timeout=5) as answer:
                    return answer.status, answer.read().decode()
            except HTTPError as error:
                with error:
                    return error.code, error.read().decode()

        return await asyncio.to_thread(ask)


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    admin = Admin()
    await admin.http.start()
    yield admin
    await admin.http.stop()


async def test_plain_numbers_become_prometheus_text(admin: Admin) -> None:
    admin.metrics.counter("ottla_calls_total", "Calls.", method="Fetch").value += 3
    admin.metrics.counter("ottla_calls_total", "Calls.", method="Produce").value += 1
    admin.metrics.gauge("ottla_logs", "Logs.", lambda: 7.0)
    admin.metrics.histogram("ottla_wait_seconds", "Waits.", method="Fetch").observe(0.03)
    status, text = await admin.get("/metrics")
    families = {f.name: f for f in text_string_to_metric_families(text)}
    assert status == 200
    assert {s.labels["method"]: s.value for s in families["ottla_calls"].samples} == {"Fetch": 3, "Produce": 1}
    assert families["ottla_logs"].samples[0].value == 7
    buckets = {s.labels["le"]: s.value for s in families["ottla_wait_seconds"].samples if s.name.endswith("_bucket")}
    assert (buckets["0.025"], buckets["0.05"], buckets["+Inf"]) == (0, 1, 1)


async def test_a_table_of_gauges_is_what_it_is_at_the_scrape(admin: Admin) -> None:
    rows: dict[tuple[str, ...], float] = {("g", "t"): 1.5}
    admin.metrics.table("ottla_lag_seconds", Table("Lag.", ("group", "topic"), lambda: rows))
    assert 'ottla_lag_seconds{group="g",topic="t"} 1.5' in (await admin.get("/metrics"))[1]
    rows = {("h\n", '"u"'): 2.0}
    families = {f.name: f for f in text_string_to_metric_families((await admin.get("/metrics"))[1])}
    assert [(s.labels, s.value) for s in families["ottla_lag_seconds"].samples] == [
        ({"group": "h\n", "topic": '"u"'}, 2.0)
    ]


async def test_health_is_of_the_process_and_readiness_of_the_service(admin: Admin) -> None:
    assert await admin.get("/healthz") == (200, "ok\n")
    assert await admin.get("/readyz") == (503, "not registered yet\n")
    admin.why = None
    assert await admin.get("/readyz") == (200, "ready\n")
    assert (await admin.get("/secrets"))[0] == 404


def answering() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def dial(admin: Admin) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", admin.http.port), timeout=5)
    sock.sendall(b"GET /met")
    return sock


@pytest.mark.story("admin-port-without-a-bound")
async def test_who_holds_on_to_connections_keeps_no_probe_out(admin: Admin) -> None:
    """1. Sixty connections begin a request and do not end it. 2. The probe is answered, and few of them are left."""
    server: Any = admin.http._server
    held = [await asyncio.to_thread(dial, admin) for _ in range(60)]
    assert (await admin.get("/healthz"))[0] == 200
    assert len(server._open) <= admin_http._MAX_CONNECTIONS
    await until(lambda: answering() <= admin_http._MAX_CONNECTIONS)
    for sock in held:
        sock.close()
    await until(lambda: answering() == 0)


async def test_a_request_that_comes_drop_by_drop_is_given_up(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_http, "_CONNECTION_S", 0.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", admin.http.port)
    writer.write(b"GET /metrics HTTP/1.0\r\n")

    async def drip() -> None:
        while True:
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(10):
        assert b"200" not in await reader.read()
    dripping.cancel()
    writer.close()
