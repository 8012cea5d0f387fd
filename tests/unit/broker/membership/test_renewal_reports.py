"""A broker reports how often it has renewed the vouch for its directory, and what is on disk is never behind that."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import until

from ottla_broker.membership import renewal_reports
from ottla_broker.membership.renewal_reports import RenewalReports
from ottla_core.cluster import keys
from ottla_core.cluster.codec import decode, encode
from ottla_core.cluster.image import LastIncarnation
from ottla_core.cluster.leased_key import read_key
from ottla_core.cluster.memory import MemoryStore
from ottla_core.cluster.store import Put, StoreUnavailableError

KEY = keys.last_incarnation(3)
TEXT = keys.key_text("c", KEY)


class Reporting:
    """Broker 3, which has renewed its vouch as often as `directory` says."""

    def __init__(self, store: MemoryStore) -> None:
        self.directory: Any = SimpleNamespace(identity=SimpleNamespace(node_id=3), renewals=4)
        self.reports = RenewalReports(store, "c", "mine", lambda: self.directory)


async def put(store: MemoryStore, incarnation: str) -> int:
    await store.txn([], [Put(TEXT, encode(KEY, LastIncarnation(incarnation, "d")))], timeout=1)
    return (await stored(store)).epoch


async def stored(store: MemoryStore) -> LastIncarnation:
    entry = await read_key(store, TEXT)
    assert entry is not None
    found = decode(KEY, entry)
    assert isinstance(found, LastIncarnation)
    return found


def _has_reported(reporting: Reporting, renewals: int) -> bool:
    return reporting.reports._reported == renewals


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal_reports, "REPORT_S", 0.01)


async def test_the_store_gets_the_number_and_keeps_the_epoch_of_the_registration() -> None:
    store = MemoryStore()
    epoch = await put(store, "mine")
    reporting = Reporting(store)
    await reporting.reports.start()
    for renewals in (4, 5):
        reporting.directory.renewals = renewals
        await until(partial(_has_reported, reporting, renewals))
        assert await stored(store) == LastIncarnation("mine", "d", epoch, renewals)
    await reporting.reports.stop()


async def test_a_stop_reports_last_and_a_kill_does_not() -> None:
    for ends, expected in (("stop", 9), ("kill", 0)):
        store = MemoryStore()
        await put(store, "mine")
        reporting = Reporting(store)
        reporting.directory.renewals = 0
        await reporting.reports.start()
        reporting.directory.renewals = 9
        await getattr(reporting.reports, ends)()
        assert (await stored(store)).renewals == expected


async def test_the_newest_incarnation_of_another_process_is_left_alone() -> None:
    store = MemoryStore()
    await put(store, "another's")
    reporting = Reporting(store)
    await reporting.reports.stop()
    assert (await stored(store)).renewals == 0


async def test_a_directory_that_was_never_opened_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    reports = RenewalReports(MemoryStore(), "c", "mine", lambda: None)
    await reports.start()
    await reports.stop()
    assert not caplog.records


async def test_a_report_that_fails_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    await put(store, "mine")
    reporting, snapshot = Reporting(store), store.snapshot
    failed: list[str] = []

    async def unavailable(prefix: str, *, timeout: float) -> Any:
        if len(failed) < 2:
            failed.append(prefix)
            raise StoreUnavailableError("etcd is away", indefinite=False)
        return await snapshot(prefix, timeout=timeout)

    monkeypatch.setattr(store, "snapshot", unavailable)
    await reporting.reports.start()
    await until(lambda: reporting.reports._reported == 4)
    await reporting.reports.kill()
    assert (await stored(store)).renewals == 4


async def test_a_store_that_does_not_answer_holds_a_stop_up_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    asked: list[str] = []

    async def silent(prefix: str, *, timeout: float) -> Any:
        asked.append(prefix)
        await asyncio.sleep(timeout)

    monkeypatch.setattr(store, "snapshot", silent)
    reporting = Reporting(store)
    async with asyncio.timeout(2.5):  # what may be left to it of a service's stop
        await reporting.reports.stop()
    assert len(asked) == 1
    assert not _has_reported(reporting, 4)
