"""For each mutant the fault that its broken rule is there for: short, directed, and repeated until time is over."""

from __future__ import annotations

import time
from typing import Final

from tests.faults.cluster import ETCD
from tests.faults.nemesis import Nemesis
from tests.faults.rows import Load, Row

_SECONDS: Final = 12.0
_SINGLE_RECORDS: Final = Load(rate=600.0, tick_s=0.01, batch_bytes=1)
"""Logs that have parted can go on at the same offsets, and something is always on its way."""


def _kill_an_only_holder(nemesis: Nemesis, until_at: float) -> None:
    """A leader whose followers hang is killed: nothing of that time may have been acknowledged."""
    while nemesis.goes_on(until_at):
        leader = nemesis.any_leader()
        with nemesis.hit("killed while its followers hung", leader):
            with nemesis.stopped(*nemesis.others(leader)):
                time.sleep(0.5)
                nemesis.kill(leader)
            time.sleep(1.0)
            nemesis.start(leader)


def _elect_one_behind_in_high_watermark(nemesis: Nemesis, until_at: float) -> None:
    """Two leaders die, one after the other, and the third broker, which heard less and less, is elected."""
    while nemesis.goes_on(until_at):
        partition = nemesis.any_partition()
        first = nemesis.cluster.leader(nemesis.topic, partition)
        second, third = (name for name in nemesis.replicas(partition) if name != first)
        with nemesis.hit("two leaders killed", first):
            nemesis.cut_both(second, [third])
            nemesis.cut(from_=[first], to=[third])  # which fetches, and never hears that what it has is committed
            time.sleep(0.2)
            nemesis.kill(first)
            nemesis.next_leader(partition, first, asked=[third])
            time.sleep(0.2)
            nemesis.kill(second)
            nemesis.next_leader(partition, second, asked=[third])
            nemesis.heal()
            nemesis.start(first, second)


def _let_a_deposed_leader_propose(nemesis: Nemesis, until_at: float) -> None:
    """A leader that only etcd can't hear is deposed, does not know it, and proposes itself as the whole ISR."""
    while nemesis.goes_on(until_at):
        leader = nemesis.any_leader()
        with nemesis.hit("cut from etcd", leader):
            nemesis.cut_both(leader, [ETCD])
            time.sleep(12.0)
            nemesis.heal()


def _depose_a_leader_with_a_tail_of_its_own(nemesis: Nemesis, until_at: float) -> None:
    """A leader that no follower hears appends, is killed, and comes back as the follower of one that wrote others."""
    while nemesis.goes_on(until_at):
        leader = nemesis.any_leader()
        with nemesis.hit("killed while cut from its followers", leader):
            nemesis.cut_both(leader, nemesis.others(leader))
            time.sleep(0.5)
            nemesis.kill(leader)
            nemesis.heal()
            time.sleep(1.0)
            nemesis.start(leader)


def _lose_answers(nemesis: Nemesis, until_at: float) -> None:
    """A leader appends and replicates what clients get no answer to, and dies: they send it again to the next one."""
    while nemesis.goes_on(until_at):
        leader = nemesis.any_leader()
        with nemesis.hit("killed while its answers were lost", leader):
            nemesis.cut(from_=[leader], to=nemesis.clients)
            time.sleep(0.3)
            nemesis.lose(leader)
            nemesis.heal()
            time.sleep(0.5)
            nemesis.start(leader)


def _lose_answers_of_all(nemesis: Nemesis, until_at: float) -> None:
    """The same, and all brokers die: what a producer sends again meets logs that were just opened."""
    brokers = nemesis.cluster.brokers
    while nemesis.goes_on(until_at):
        with nemesis.hit("all killed while answers were lost", *brokers):
            nemesis.cut(from_=brokers, to=nemesis.clients)
            time.sleep(0.3)
            nemesis.lose(*brokers)
            nemesis.heal()
            nemesis.start(*brokers)


MUTANT_ROWS: Final = tuple(
    Row(
        name,
        "a rule broken on purpose",
        run,
        _SECONDS / 60,
        0,
        0,
        load=_SINGLE_RECORDS,
    )
    for name, run in (
        ("acks-before-the-high-watermark", _kill_an_only_holder),
        ("truncation-by-high-watermark", _elect_one_behind_in_high_watermark),
        ("isr-without-compare-and-set", _let_a_deposed_leader_propose),
        ("no-epoch-check", _depose_a_leader_with_a_tail_of_its_own),
        ("no-sequence-check", _lose_answers),
        ("producer-state-forgotten-at-restart", _lose_answers_of_all),
    )
)
