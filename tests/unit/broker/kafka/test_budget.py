"""Who may hold how much of what all connections of a listener hold together."""

from __future__ import annotations

import pytest
from waiting import until

from ottla_broker.kafka.network.budget import LARGE, SMALL, Account, Budget

MIB = 1 << 20
WHOLE = 128 * MIB
FOR_ANYBODY = 112 * MIB
LITTLE = MIB
MUCH = 100 * MIB


class Client:
    """One connection; it takes what it has waited for."""

    def __init__(self, budget: Budget, address: str = "a") -> None:
        self.account: Account = budget.account(address, self)
        self.let_in = 0
        self.takes = 0

    def on_room(self) -> None:
        self.let_in += 1
        self.account.change(self.takes)

    def hold(self, size_bytes: int) -> Client:
        self.account.change(size_bytes)
        return self


@pytest.fixture
def budget() -> Budget:
    return Budget(WHOLE)


@pytest.mark.story("one-connection-has-all-the-memory")
def test_one_alone_may_have_most_of_it(budget: Budget) -> None:
    client = Client(budget)
    assert client.account.free() == 96 * MIB
    client.hold(96 * MIB - 1)
    assert client.account.has_room(MUCH)
    client.hold(1)
    assert not client.account.has_room(MUCH)


@pytest.mark.story("one-address-has-all-the-memory")
def test_one_address_leaves_room_for_another_however_many_connections_it_has(budget: Budget) -> None:
    greedy = [Client(budget, "a") for _ in range(1_000)]
    while any(client.account.free() > 0 for client in greedy):
        for client in greedy:
            client.hold(max(0, min(MIB, client.account.free())))
    assert budget.held_bytes < FOR_ANYBODY * 8 / 9 + MIB
    other = Client(budget, "b")
    assert other.account.has_room(LARGE)
    assert other.account.free() > 8 * MIB
    assert not greedy[0].account.has_room(LARGE)


@pytest.mark.story("small-requests-wait-for-large-ones")
def test_small_requests_have_a_part_of_their_own(budget: Budget) -> None:
    for n in range(100):
        client = Client(budget, str(n))
        client.hold(max(0, client.account.free()))
    Client(budget).hold(FOR_ANYBODY - budget.held_bytes)
    client = Client(budget)
    assert not client.account.has_room(LARGE)
    client = Client(budget)
    assert client.account.has_room(SMALL)
    client.hold(WHOLE - FOR_ANYBODY)
    assert client.account.has_room(SMALL), "what it holds itself is not in its way"
    assert not Client(budget).account.has_room(SMALL)


def test_frames_that_need_little_may_end_and_only_so_many_at_a_time(budget: Budget) -> None:
    full = Client(budget, "b").hold(FOR_ANYBODY)
    clients = [Client(budget) for _ in range(9)]
    assert [client.account.has_room(LITTLE) for client in clients] == [True] * 8 + [False]
    assert not Client(budget).account.has_room(MUCH)
    assert clients[0].account.has_room(LITTLE // 2), "it was promised all that it needs"
    clients[0].account.end_promise()
    assert clients[8].let_in == 0
    full.hold(-1)
    assert clients[8].let_in == 1


def test_who_ends_keeps_nobody_waiting(budget: Budget) -> None:
    full, waiting, gone = Client(budget, "b").hold(WHOLE), Client(budget), Client(budget)
    assert not gone.account.has_room(SMALL)
    assert not waiting.account.has_room(SMALL)
    gone.account.close()
    full.account.close()
    assert (waiting.let_in, gone.let_in, budget.held_bytes) == (1, 0, 0)
    assert not waiting.account.waits


def test_who_may_not_go_on_does_not_hold_up_those_behind(budget: Budget) -> None:
    """The first is beyond its address's share, and many like it wait."""
    elsewhere = Client(budget, "b").hold(MIB)
    greedy = Client(budget, "a").hold(FOR_ANYBODY - MIB)
    others = [Client(budget, "a") for _ in range(100)]
    assert not any(client.account.has_room(LARGE) for client in others)
    last = Client(budget, "b")
    assert not last.account.has_room(LARGE)
    greedy.hold(-MIB)
    for _ in range(10):
        elsewhere.hold(-1)
    assert (last.let_in, sum(client.let_in for client in others)) == (1, 0)
    greedy.hold(-90 * MIB)
    budget.on_tick()
    assert all(client.let_in == 1 for client in others)


def test_room_goes_to_as_many_as_there_is_room_for(budget: Budget) -> None:
    full = Client(budget, "b").hold(WHOLE)
    clients = [Client(budget, str(n)) for n in range(10)]
    for client in clients:
        client.takes = 50 * MIB
        assert not client.account.has_room(LARGE)
    full.account.change(-WHOLE)
    assert sum(client.let_in for client in clients) in (2, 3)
    assert budget.held_bytes <= 150 * MIB


def test_what_is_lent_is_held_until_it_is_given_back(budget: Budget) -> None:
    client = Client(budget)
    assert client.account.lend(MIB) == MIB
    client.account.give_back(MIB // 2)
    assert budget.held_bytes == MIB // 2
    client.account.give_back(-MIB)
    assert budget.held_bytes == MIB * 3 // 2
    client.account.give_back_all()
    assert budget.held_bytes == 0
    Client(budget, "b").hold(WHOLE)
    assert client.account.lend(MIB) == 0
    assert client.account.free() <= 0


def test_an_answer_that_is_still_read_for_a_connection_that_has_ended_counts_for_nothing(budget: Budget) -> None:
    client = Client(budget)
    client.account.lend(MIB)
    client.account.close()
    client.account.give_back(MIB // 2)
    assert client.account.lend(MIB) == 0
    client.account.give_back_all()
    assert budget.held_bytes == 0


@pytest.mark.story("let-in-inside-each-others-calls")
def test_many_who_give_back_at_once_what_they_have_waited_with_let_each_other_in(budget: Budget) -> None:
    """Each that goes on made room for the next one inside of its own call, as deep as there were many that waited."""

    class Done(Client):
        def on_room(self) -> None:
            super().on_room()
            self.account.change(-self.account.held_bytes)

    full = Client(budget, "b").hold(WHOLE)
    clients = [Done(budget).hold(1) for _ in range(2_000)]
    assert not any(client.account.has_room(SMALL) for client in clients)
    full.account.close()
    assert [client.let_in for client in clients] == [1] * 2_000
    assert budget.held_bytes == 0


@pytest.mark.story("let-in-without-a-turn-for-others")
async def test_those_who_are_let_in_together_take_turns_with_others() -> None:
    """Each may have requests that take milliseconds: a thousand of them held the loop for seconds."""
    budget = Budget(WHOLE, slice_s=0.0)
    full = Client(budget, "b").hold(WHOLE)
    clients = [Client(budget) for _ in range(100)]
    assert not any(client.account.has_room(SMALL) for client in clients)
    full.account.change(-MUCH)
    budget.on_tick()
    assert sum(client.let_in for client in clients) == 1
    await until(lambda: all(client.let_in for client in clients))
    budget.on_tick()
    assert sum(client.let_in for client in clients) == 100
