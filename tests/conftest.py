"""What holds for every test: no loop of a service has a long turn; properties are not timed; a JVM is soon ready."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from peers.jvm import SHORT_LIVED
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from ottla_core.event_loop import slices, watchdog
from ottla_core.event_loop.watchdog import LIMIT_S

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # how long an example takes says how busy the machine is; pytest bounds each test

os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(SHORT_LIVED))
"""For each driver that a test starts or that its programs start: a third of their time went into optimised code."""

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
"""PySpark forks to start its JVM: by default gRPC ends some of these children, and others disturb the connections of
their parent. Clusters within a process have gRPC servers."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `make test &`: what tests start would ignore their Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(20_000, 5, 100)
"""What thousands of tests have imported stays: to look through all of it again and again was a seventh of all work."""

_FAILS_AT_MS = 2 * LIMIT_S * 1000
"""What the watchdog measures may be a beat more than the turn, and a processor that is shared does less in its time."""


class _LongTurns(logging.Handler):
    """What the watchdogs of this process have told since a test last looked."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        arguments: Any = record.args
        used_ms, collecting_ms, *_ = arguments
        if used_ms - collecting_ms > _FAILS_AT_MS:  # the garbage is that of this process, tests and all
            self.told.append(record.getMessage())


_long_turns = _LongTurns()
logging.getLogger(watchdog.__name__).addHandler(_long_turns)


@pytest.fixture(autouse=True)
def _turns_stay_short(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test during which a cluster of this process had a long turn (`ottla_core.event_loop.watchdog`)."""
    _long_turns.told.clear()
    yield
    told, _long_turns.told = _long_turns.told, []
    if told and request.node.get_closest_marker("long_turns") is None:
        pytest.fail("\n".join(told), pytrace=False)


@pytest.fixture
def slices_by_looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests that count turns: slices end by how often they look at the clock, for a fast machine has few of two
    milliseconds. And a thread beside the loop gives way to it fifty times as often as else."""
    monkeypatch.setattr(slices, "time", SimpleNamespace(perf_counter=itertools.count(0.0, 0.001).__next__))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval / 50)
    yield
    sys.setswitchinterval(interval)


_ASYNCIO = {"asyncio": asyncio.new_event_loop}
_UVLOOP = {"uvloop": uvloop.new_event_loop}

_OF_USERS = ("tests/unit/sdk/", "tests/spark/", "tests/system/test_app.py", "tests/system/test_sdk.py")
_ON_BOTH = (
    "tests/unit/core/",
    "tests/unit/cluster/",
    "tests/unit/broker/kafka/test_connection.py",
    "tests/unit/broker/kafka/test_tls_transport.py",
)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Asynchronous tests run on the event loop of the services, uvloop's. Users of the SDK have asyncio's. What is
    close to the loop runs on both, because the simulations run it on a loop of asyncio's."""
    if item.nodeid.startswith(_OF_USERS):
        return _ASYNCIO
    return _UVLOOP | _ASYNCIO if item.nodeid.startswith(_ON_BOTH) else _UVLOOP


_SPARK = "tests/spark/"
_WITH_DRIVERS_OF_THEIR_OWN = ("test_spark_kills.py", "test_spark_standalone.py")


class _FilesAndSpark(LoadFileScheduling):
    """A file to a worker, but all of one Spark to one: a JVM runs its second query in a fifth of the first's time."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _SPARK if file.startswith(_SPARK) and not file.endswith(_WITH_DRIVERS_OF_THEIR_OWN) else file


@pytest.hookimpl(optionalhook=True)  # `make regressions` runs tests without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """That one, for `--dist loadfile`."""
    return _FilesAndSpark(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """The tests themselves are no garbage either, for as long as they run."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """What a test has logged goes to the process that collects all reports, even where it can not be encoded."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {name: _encodable(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_encodable, value))
        case _:
            return value
