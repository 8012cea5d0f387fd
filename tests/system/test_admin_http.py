"""The admin port over a real socket: metrics that a Prometheus parser takes, health, readiness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla_core.admin_http import AdminHttp
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
    rows = {("g", "t"): 1.5}
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
