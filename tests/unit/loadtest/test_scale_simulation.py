"""What a controller has to do follows the partitions that something happens to, not those that there are."""

from __future__ import annotations

import asyncio

from loadtest.scale.simulation import Simulation, Step


def simulated(partitions: int, brokers: int) -> dict[str, Step]:
    simulation = Simulation(partitions, brokers, seed=1)
    asyncio.run(simulation.run())
    return simulation.steps


def test_ten_times_the_cluster_costs_the_same_for_the_same_events() -> None:
    small, large = simulated(2_000, 6), simulated(20_000, 60)
    print(small, large, sep="\n")
    for steps, partitions in ((small, 2_000), (large, 20_000)):
        assert steps["create"].looked_at <= 2 * partitions
        for name in ("broker_gone", "broker_back", "isr_changes"):
            assert steps[name].looked_at <= 4 * steps[name].concerned, name
        assert steps["broker_gone"].transactions <= steps["broker_gone"].concerned / 50 + 2
        assert steps["isr_changes"].transactions == steps["isr_changes"].concerned
    assert abs(large["broker_gone"].concerned - small["broker_gone"].concerned) < 10
    for name in ("broker_gone", "isr_changes"):
        assert large[name].written <= 1.1 * small[name].written  # `seq` is written in each transaction
        assert large[name].looked_at <= 1.1 * small[name].looked_at + 100
