"""Clients that are kept from one task to the next."""

from __future__ import annotations

import pytest
from waiting import wait_until

from ottla.errors import AuthenticationError, ErrorCode
from pyspark_ottla.idle_clients import IdleClients


class Clients:
    def __init__(self, **bounds: float) -> None:
        self.made: list[str] = []
        self.prepared: list[str] = []
        self.ended: list[str] = []
        self.idle = IdleClients(self.ended.append, **bounds)  # type: ignore[arg-type]  # either of its two

    def make(self) -> str:
        self.made.append(f"client {len(self.made)}")
        return self.made[-1]

    def use(self, key: str) -> str:
        with self.idle.lent(key, self.make, self.prepared.append) as client:
            return client


def test_a_task_gets_the_client_of_the_one_before_prepared_for_it() -> None:
    clients = Clients()
    assert [clients.use(key) for key in ("a", "a", "b", "a")] == ["client 0", "client 0", "client 1", "client 0"]
    assert clients.prepared == ["client 0", "client 0", "client 1", "client 0"]
    clients.idle.close()
    assert sorted(clients.ended) == clients.made


def test_two_tasks_at_once_have_two_and_one_of_them_is_kept() -> None:
    clients = Clients()
    with clients.idle.lent("a", clients.make) as first, clients.idle.lent("a", clients.make) as second:
        assert first != second
    assert clients.ended == [first]
    assert clients.use("a") == second


def test_what_a_task_that_fails_has_used_is_ended() -> None:
    clients = Clients()
    with pytest.raises(KeyError), clients.idle.lent("a", clients.make):
        raise KeyError
    assert clients.ended == ["client 0"]
    clients.use("a")

    def fail(_: str) -> None:
        raise KeyError

    with pytest.raises(KeyError), clients.idle.lent("a", clients.make, fail):
        pass
    assert clients.ended == ["client 0", "client 1"]


def test_a_rejected_login_ends_all_idle_clients() -> None:
    """They were made with the old password, too."""
    clients = Clients()
    clients.use("a")
    clients.use("b")
    with pytest.raises(AuthenticationError), clients.idle.lent("c", clients.make):
        raise AuthenticationError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the password has changed")
    assert sorted(clients.ended) == ["client 0", "client 1", "client 2"]


def test_those_that_nobody_wants_go_and_the_oldest_where_there_are_too_many() -> None:
    clients = Clients(idle_s=0.05)
    clients.use("a")
    wait_until(lambda: clients.ended == ["client 0"])
    clients = Clients(most=2)
    for key in ("a", "b", "a", "c"):
        clients.use(key)
    assert clients.ended == ["client 1"]
