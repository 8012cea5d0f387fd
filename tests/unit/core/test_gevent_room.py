"""Under gevent every stream brings a thread along; elsewhere nothing happens. gevent itself is not needed to see it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ottla_core.rpc.gevent_room import Room


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The hub's pool of a process whose threads are greenlets."""
    pool = SimpleNamespace(maxsize=10)
    monkeypatch.setitem(sys.modules, "gevent", SimpleNamespace(get_hub=lambda: SimpleNamespace(threadpool=pool)))
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)
    return pool


def test_each_open_stream_has_a_thread_of_its_own(pool: SimpleNamespace) -> None:
    rooms = [Room() for _ in range(3)]
    assert pool.maxsize == 13
    for room in rooms:
        room.give_back()
        room.give_back()
    assert pool.maxsize == 10


def test_gevent_that_is_only_imported_changes_nothing(pool: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gevent.monkey", SimpleNamespace(is_module_patched=lambda name: False))
    Room().give_back()
    assert pool.maxsize == 10


def test_where_threads_are_threads_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gevent.monkey", raising=False)
    Room().give_back()
    assert "gevent" not in sys.modules
