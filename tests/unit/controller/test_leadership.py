"""The end of a term: nothing of it is left, whatever a duty died of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla_controller import leadership
from ottla_controller.leadership import Leadership


class Written:
    """Stands for the journal."""

    def __init__(self, *_: object, **__: object) -> None:
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def commit(self, _: object) -> None:
        """Nothing has to be prepared."""

    async def close(self, _: float) -> None:
        self.is_open = False


class Living:
    journal: Any = None
    is_over = False

    async def run(self, journal: Any) -> None:
        self.journal = journal
        try:
            await asyncio.Event().wait()
        finally:
            assert journal.is_open, "it may write to its end"
            self.is_over = True


class Dying:
    async def run(self, _: object) -> None:
        raise ZeroDivisionError


@pytest.fixture
def term(monkeypatch: pytest.MonkeyPatch) -> Leadership:
    monkeypatch.setattr(leadership, "Journal", Written)
    none: Any = None
    return Leadership(none, none, "c", 1, str, lease_ttl_s=9, duties=[Dying(), Living()])


async def test_a_duty_that_died_keeps_no_other_from_its_end(term: Leadership) -> None:
    living: Any = term._duties[1]
    over = asyncio.Event()
    serving = asyncio.create_task(term._serve(7, over))
    await asyncio.sleep(0.01)
    assert living.journal.is_open
    over.set()
    await serving
    assert living.is_over
    assert not living.journal.is_open
    assert not term.active


async def test_a_duty_that_died_keeps_no_process_from_its_stop(
    term: Leadership, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = iter([term._serve(7, asyncio.Event())])
    monkeypatch.setattr(term, "_stand", lambda: next(terms))
    await term.start()
    await asyncio.sleep(0.01)
    assert term.active
    done, _ = await asyncio.wait([asyncio.create_task(term.stop())], timeout=2)
    assert done, "the error took the cancellation's place"
    assert not term.active
