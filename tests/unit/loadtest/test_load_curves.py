"""How many users there are when: the arithmetic under Locust's shapes."""

from __future__ import annotations

import pytest
from loadtest.locust.curves import CURVES, users_at


def test_a_ramp_goes_up_evenly_and_stays() -> None:
    assert [users_at("ramp", at, 12, 60) for at in (0, 3, 18, 36, 59.9)] == [1, 1, 6, 12, 12]
    climb = [users_at("ramp", at / 10, 12, 60) or 0 for at in range(600)]
    assert climb == sorted(climb)
    assert set(climb) == set(range(1, 13))


def test_a_spike_comes_and_goes() -> None:
    assert [users_at("spike", at, 12, 100) for at in (0, 39.9, 40, 59.9, 60, 99)] == [3, 3, 12, 12, 3, 3]


def test_a_soak_is_flat() -> None:
    assert {users_at("soak", at, 4, 600) for at in range(600)} == {4}


@pytest.mark.parametrize("curve", CURVES)
def test_every_curve_has_users_until_the_time_is_over_and_never_too_many(curve: str) -> None:
    for most in (1, 2, 7):
        users = [users_at(curve, at, most, 30) for at in range(30)]
        assert all(number is not None and 1 <= number <= most for number in users)
        assert max(number or 0 for number in users) == most
    assert users_at(curve, 30, 5, 30) is None
