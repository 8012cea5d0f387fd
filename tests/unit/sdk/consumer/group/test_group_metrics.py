"""A group consumer's own figures, beside those of its reading."""

from __future__ import annotations

from scripted_groups import WAIT, consumer_of, filled
from waiting import wait_until

from ottla.consumer import metrics as consumed
from ottla.consumer.group import metrics as figures


def test_a_member_tells_of_its_rebalances_commits_and_heartbeats() -> None:
    cluster = filled({0: 3})
    with consumer_of(cluster, commit="manual") as consumer:
        before = consumer.metrics
        assert set(before) == {*consumed.METRICS, *figures.METRICS}
        assert {name: before[name] for name in figures.METRICS} == {
            "rebalance-total": 0,
            "commit-total": 0,
            "generation": -1,
            "last-heartbeat-seconds-ago": -1,
            "last-poll-seconds-ago": -1,
        }
        assert len(consumer.poll(WAIT)) == 3
        consumer.commit()
        wait_until(lambda: 0 <= consumer.metrics["last-heartbeat-seconds-ago"] < 1)
        assert 0 <= consumer.metrics["last-poll-seconds-ago"] < WAIT
        assert [consumer.metrics[name] for name in ("rebalance-total", "commit-total", "generation")] == [1, 1, 1]
        cluster.groups.rebalance("g")
        wait_until(lambda: consumer.poll(0.05) is not None and consumer.metrics["rebalance-total"] == 2)
        assert consumer.metrics["generation"] == 2
    assert consumer.metrics["generation"] == -1


def test_who_has_no_group_has_no_such_figures() -> None:
    with consumer_of(filled({0: 1}), group=None, heartbeat_interval=3.0) as consumer:
        assert set(consumer.metrics) == set(consumed.METRICS)
