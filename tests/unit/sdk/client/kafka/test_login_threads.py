"""Logins that wait for a thread: each gets one, whenever it comes and whatever happens to the others."""

from __future__ import annotations

import threading

import pytest
from waiting import LIMIT_S, wait_until

from ottla.client.kafka.sockets import logins
from ottla.client.kafka.sockets.logins import LoginThreads


class Line:
    """A line that waits for `released`, and then may fail."""

    address = "h:1"
    ended: object | None = None

    def __init__(self, released: threading.Event | None = None, *, fails: bool = False) -> None:
        self._released = released
        self._fails = fails
        self.has_credentials = False

    def get_credentials(self) -> None:
        assert self._released is None or self._released.wait(LIMIT_S)
        if self._fails:
            raise RuntimeError("a bug")
        self.has_credentials = True


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "_MOST_THREADS", 1)


def test_a_login_that_comes_while_the_last_thread_ends_is_not_forgotten() -> None:
    threads, first, late = LoginThreads(), Line(), Line()

    class Lock:
        """A lock after whose first use by the login's thread another login begins."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._is_used = False

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()
            if first.has_credentials and not self._is_used:
                self._is_used = True
                threads.begin(late)

    threads._lock = Lock()  # type: ignore[assignment]  # it is used as a context manager alone
    threads.begin(first)
    wait_until(lambda: late.has_credentials)


def test_a_login_that_fails_or_has_ended_gives_its_thread_to_the_next() -> None:
    released, threads = threading.Event(), LoginThreads()
    failing, ended, waiting, later = Line(released, fails=True), Line(), Line(), Line()
    for line in (failing, ended, waiting):
        threads.begin(line)
    ended.ended = "closed"
    released.set()
    wait_until(lambda: waiting.has_credentials)
    threads.begin(later)
    wait_until(lambda: later.has_credentials)
    assert not ended.has_credentials
