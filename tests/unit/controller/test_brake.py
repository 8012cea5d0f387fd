"""The mass-expiry brake decides which brokers are within grace, for how long, and which are probed (rule C6)."""

from __future__ import annotations

from typing import Any

from partitions import broker

from ottla_controller.machines.brake import WINDOW_S, Brake
from ottla_core.cluster.image import Broker

GRACE_S = 6.0


class Cluster:
    """Registrations that come and go, as the brake sees them, at a time that is given."""

    def __init__(self, count: int) -> None:
        self.brake = Brake(GRACE_S)
        self.brokers: dict[int, Broker] = {n: broker(n, incarnation=f"i{n}") for n in range(count)}

    def vanish(self, at: float, *gone: int) -> set[int]:
        return self.become(at, {n: b for n, b in self.brokers.items() if n not in gone})

    def register(self, at: float, number: int, **fields: Any) -> set[int]:
        registered = broker(number, **{"incarnation": f"i{number}", "epoch": 900 + number, **fields})
        return self.become(at, {**self.brokers, number: registered})

    def become(self, at: float, brokers: dict[int, Broker]) -> set[int]:
        before, self.brokers = self.brokers, brokers
        self.brake.on_brokers(at, before, brokers)
        return self.within_grace(at)

    def within_grace(self, at: float) -> set[int]:
        return set(self.brake.within_grace(at))

    @property
    def to_probe(self) -> list[int]:
        return sorted(b.id for b in self.brake.to_probe())


def test_one_of_three_that_falls_silent_is_held_for_a_second_and_not_asked() -> None:
    cluster = Cluster(3)
    assert cluster.vanish(10.0, 1) == {1}
    assert cluster.to_probe == []
    assert cluster.within_grace(10.0 + WINDOW_S) == set()


def test_two_of_three_within_a_second_are_asked_before_anything_is_done() -> None:
    cluster = Cluster(3)
    cluster.vanish(10.0, 1)
    second = cluster.brokers[2]
    assert cluster.vanish(10.9, 2) == {1, 2}
    assert cluster.to_probe == [1, 2]
    assert cluster.within_grace(999.0) == {1, 2}  # until they were asked
    cluster.brake.on_probed(11.0, broker(1), alive=True)
    cluster.brake.on_probed(11.5, second, alive=False)
    assert cluster.within_grace(11.5) == {1}
    assert cluster.to_probe == []
    assert cluster.within_grace(11.0 + GRACE_S) == set()


def test_one_after_another_is_no_mass_expiry() -> None:
    for later, asked in ((WINDOW_S - 0.1, [1, 2]), (WINDOW_S, [])):
        cluster = Cluster(5)
        cluster.vanish(10.0, 1)
        cluster.vanish(10.0 + later, 2)
        assert cluster.to_probe == asked


def test_the_only_broker_and_one_of_two_are_asked_at_once() -> None:
    for count in (1, 2):
        cluster = Cluster(count)
        assert cluster.vanish(10.0, 0) == {0}
        assert cluster.to_probe == [0]


def test_four_of_ten_are_asked_and_three_are_not() -> None:
    for gone, asked in ((3, []), (4, [0, 1, 2, 3])):
        cluster = Cluster(10)
        cluster.vanish(10.0, *range(gone))
        assert cluster.to_probe == asked


def test_a_death_that_is_proven_and_a_shutdown_in_order_need_no_brake() -> None:
    cluster = Cluster(3)
    cluster.brake.on_proven_dead(cluster.brokers[0])
    assert cluster.vanish(10.0, 0) == set()
    cluster.become(11.0, {1: broker(1, shutting_down=True), 2: cluster.brokers[2]})
    assert cluster.vanish(12.0, 1) == set()
    assert cluster.to_probe == []


def test_a_proof_is_of_one_life_only() -> None:
    cluster = Cluster(3)
    cluster.brake.on_proven_dead(cluster.brokers[0])
    cluster.vanish(10.0, 0)
    cluster.register(11.0, 0)
    assert cluster.vanish(12.0, 0) == {0}


def test_who_registers_again_is_spared_until_it_is_unfenced() -> None:
    cluster = Cluster(1)
    cluster.vanish(10.0, 0)
    cluster.brake.on_probed(10.1, broker(0), alive=True)
    assert cluster.register(12.0, 0, fenced=True) == {0}
    assert cluster.register(12.1, 0, fenced=False) == set()


def test_another_process_and_one_that_may_have_lost_records_are_not_spared() -> None:
    for fields in ({"incarnation": "another"}, {"unclean": True}):
        cluster = Cluster(1)
        cluster.vanish(10.0, 0)
        assert cluster.register(10.1, 0, fenced=True, **fields) == set()


def test_an_answer_about_a_former_life_says_nothing() -> None:
    cluster = Cluster(1)
    cluster.vanish(10.0, 0)
    cluster.brake.on_probed(10.1, broker(0, epoch=7), alive=False)
    assert cluster.to_probe == [0]


def test_brokers_that_are_missing_when_a_cluster_starts_have_time_to_come() -> None:
    cluster = Cluster(1)
    cluster.brake.on_start(10.0, {0, 1, 2}, {0})
    assert cluster.within_grace(10.0) == {1, 2}
    assert cluster.register(11.0, 1, fenced=True) == {1, 2}  # whichever process it is: none was known
    assert cluster.register(11.1, 1) == {2}
    assert cluster.register(11.2, 2, fenced=True, unclean=True) == set()
    assert cluster.to_probe == []


def test_one_of_three_that_is_missing_when_the_process_starts_is_dead() -> None:
    cluster = Cluster(2)
    cluster.brake.on_start(10.0, {0, 1, 2}, {0, 1})
    assert cluster.within_grace(10.0) == set()
