"""Any order of deaths, restarts, proposals and elections, against a model of who has every acknowledged record.

The model knows of each partition which replicas are complete. A write reaches the ISR, and nobody else; a restart may
lose the end of everything that a broker has. Decisions may be made from an image that is out of date, and are then
written only where all that they relied on still holds. That compare is the only guard here: the order in which the
journal writes them is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from images import topic_id
from partitions import broker as registration

from ottla_controller.machines.brokers import decide_controlled_shutdown, decide_remove_dead
from ottla_controller.machines.decision import Decision, ReliedOn
from ottla_controller.machines.election import decide_reconcile, unsettled
from ottla_controller.machines.isr import Proposal, decide_alter_partition
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders
from ottla_core.cluster.image import Change, ClusterImage, Partition, Topic
from ottla_core.errors import OttlaError
from ottla_core.model import NO_LEADER, PartitionId

BROKERS = 4
PARTITIONS = [PartitionId(topic_id(1), n) for n in range(4)]
brokers = st.integers(0, BROKERS - 1)
some_brokers = st.sets(brokers)
partitions = st.sampled_from(PARTITIONS)


class Elections(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unclean_allowed = False
        self.image = ClusterImage("test")
        self.complete: dict[PartitionId, set[int]] = {}
        self.fetched: dict[tuple[PartitionId, int], int] = {}  # the epoch of the life that caught up
        self.tail_lost: set[int] = set()  # what a broker keeps on its disk
        self.decided: list[Decision[Any]] = []  # and not written yet

    @initialize(unclean_allowed=st.booleans())
    def begin(self, unclean_allowed: bool) -> None:
        self.unclean_allowed = unclean_allowed
        configs = {"unclean.leader.election.enable": str(unclean_allowed).lower()}
        changes = [Change(("topic", "t"), Topic("t", topic_id(1), len(PARTITIONS), configs, 1))]
        for n, id_ in enumerate(PARTITIONS):
            replicas = tuple((n + r) % BROKERS for r in range(3))
            changes.append(Change(("partition", id_), Partition(replicas, replicas[0], 0, replicas, mod_revision=1)))
            self.complete[id_] = set(replicas)
        self.image = self.image.with_changes(changes, 1)
        for b in range(BROKERS):
            self.register(b, unclean=False, fenced=False)

    # ---- what happens to brokers -----------------------------------------------------------------------------------

    def register(self, b: int, *, unclean: bool, fenced: bool) -> None:
        revision = self.image.revision + 1
        life = registration(b, epoch=revision, unclean=unclean, fenced=fenced, mod_revision=revision)
        self.image = self.image.with_changes([Change(("broker", b), life)], revision)

    @rule(b=brokers)
    def die(self, b: int) -> None:
        self.image = self.image.with_changes([Change(("broker", b), None)], self.image.revision + 1)

    @rule(b=brokers)
    def proven_dead(self, b: int) -> None:
        if b in self.image.brokers:
            self.write(decide_remove_dead(self.image, b, self.image.brokers[b].epoch))

    @rule(b=brokers, lost=st.booleans())
    def restart(self, b: int, lost: bool) -> None:
        """Also within its lease. Who may have lost records says so until it was unfenced, through more restarts too."""
        if lost:
            self.tail_lost.add(b)
            for complete in self.complete.values():
                complete.discard(b)
        self.register(b, unclean=b in self.tail_lost, fenced=True)

    @rule(b=brokers)
    def unfence(self, b: int) -> None:
        life = self.image.brokers.get(b)
        if life is None or not life.fenced:
            return
        if life.unclean and any(b in p.isr and len(p.isr) > 1 for p in self.image.partitions.values()):
            return  # it waits until it has left every ISR it can (rule C15)
        revision = self.image.revision + 1
        self.tail_lost.discard(b)
        unfenced = replace(life, fenced=False, unclean=False, mod_revision=revision)
        self.image = self.image.with_changes([Change(("broker", b), unfenced)], revision)

    @rule(b=brokers)
    def shut_down(self, b: int) -> None:
        if b in self.image.brokers:
            self.write(decide_controlled_shutdown(self.image, b, self.image.brokers[b].epoch))

    # ---- what leaders do -------------------------------------------------------------------------------------------

    @rule(id_=partitions)
    def acknowledge(self, id_: PartitionId) -> None:
        """A record: on all of the ISR, or it is not acknowledged. Who is not in it lacks something from here on."""
        partition = self.image.partitions[id_]
        if partition.leader in self.image.brokers and set(partition.isr) <= self.image.brokers.keys():
            self.complete[id_] &= set(partition.isr)
            self.fetched = {(p, b): epoch for (p, b), epoch in self.fetched.items() if p != id_}

    @rule(id_=partitions, b=brokers)
    def catch_up(self, id_: PartitionId, b: int) -> None:
        if b in self.image.brokers and b in self.image.partitions[id_].replicas:
            self.fetched[id_, b] = self.image.brokers[b].epoch

    @rule(id_=partitions, members=some_brokers, behind=st.integers(0, 1), late=st.booleans())
    def propose(self, id_: PartitionId, members: set[int], behind: int, late: bool) -> None:
        partition = self.image.partitions[id_]
        leader = self.image.brokers.get(partition.leader)
        if leader is None:
            return
        isr = {leader.id} | {b for b in members if b in partition.isr or (id_, b) in self.fetched}
        epochs = {b: self.image.brokers[b].epoch if b in self.image.brokers else 0 for b in isr}
        epochs |= {b: self.fetched[id_, b] for b in isr if (id_, b) in self.fetched and b not in partition.isr}
        proposal = Proposal(
            id_,
            partition.leader_epoch,
            partition.partition_epoch - behind,
            tuple(epochs.items()),
            recovered=partition.recovering,
        )
        try:
            decision = decide_alter_partition(self.image, leader.id, leader.epoch, [proposal])
        except OttlaError:
            return
        self.write_or_keep(decision, late=late)

    # ---- what the controller does ----------------------------------------------------------------------------------

    @rule(most=st.integers(1, 4), spared=some_brokers, late=st.booleans())
    def reconcile(self, most: int, spared: set[int], late: bool) -> None:
        kept = frozenset(
            b for b in spared if not (b in self.image.brokers and self.image.brokers[b].unclean)
        )  # the brake spares nobody who may have lost records
        left = unsettled(self.image, kept)[:most]
        self.write_or_keep(decide_reconcile(self.image, left, kept), late=late)

    @rule(id_=partitions, late=st.booleans())
    def elect_preferred(self, id_: PartitionId, late: bool) -> None:
        self.write_or_keep(decide_elect_leaders(self.image, ElectionType.PREFERRED, [id_]), late=late)

    @precondition(lambda self: self.unclean_allowed)
    @rule(id_=partitions)
    def elect_unclean(self, id_: PartitionId) -> None:
        self.write(decide_elect_leaders(self.image, ElectionType.UNCLEAN, [id_]))

    @precondition(lambda self: self.decided)
    @rule()
    def write_late(self) -> None:
        self.write(self.decided.pop(0))

    def write_or_keep(self, decision: Decision[Any], *, late: bool) -> None:
        if late:
            self.decided.append(decision)
        else:
            self.write(decision)

    def write(self, decision: Decision[Any]) -> None:
        """All of it or nothing, as a transaction does, and check each step that a partition takes."""
        if not all(self.holds(seen) for write in decision.writes for seen in write.relied_on):
            return
        revision = self.image.revision + 1
        before = self.image
        changes = [
            Change(w.change.key, w.change.value and replace(w.change.value, mod_revision=revision))
            for w in decision.writes
        ]
        self.image = self.image.with_changes(changes, revision)
        for kind, identity in (change.key for change in changes):
            if kind == "partition":
                self.check_step(identity, before.partitions[identity], self.image.partitions[identity])

    def holds(self, seen: ReliedOn) -> bool:
        kind, identity = seen.key
        entry = (self.image.partitions if kind == "partition" else self.image.brokers).get(identity)
        created = getattr(entry, "epoch", 0)
        modified = getattr(entry, "mod_revision", 0)
        return seen.create_revision in (None, created) and seen.mod_revision in (None, modified)

    # ---- what must hold --------------------------------------------------------------------------------------------

    def check_step(self, id_: PartitionId, before: Partition, now: Partition) -> None:
        assert now.partition_epoch == before.partition_epoch + 1
        assert now.leader_epoch == before.leader_epoch + (now.leader != before.leader)
        assert now.replicas == before.replicas
        complete = self.complete[id_]
        for b in set(now.isr) - set(before.isr):
            if now.leader == before.leader:  # it joined, and its leader had seen this very life catch up
                assert self.fetched.get((id_, b)) == self.image.brokers[b].epoch
                complete.add(b)
        if now.leader in (before.leader, NO_LEADER):
            return
        assert now.leader in self.image.brokers
        unclean = now.leader not in before.isr
        assert not unclean or (self.unclean_allowed and now.recovering and now.isr == (now.leader,))
        # Whoever is elected has every acknowledged record, or nobody in sync had them any more.
        assert unclean or now.leader in complete or not complete & set(before.isr)
        if now.leader not in complete:
            self.complete[id_] = {now.leader}
        self.fetched = {(p, b): epoch for (p, b), epoch in self.fetched.items() if p != id_}

    @invariant()
    def every_partition_is_well_formed(self) -> None:
        for partition in self.image.partitions.values():
            assert partition.isr
            assert len(set(partition.isr)) == len(partition.isr)
            assert set(partition.isr) <= set(partition.replicas)
            assert partition.leader == NO_LEADER or partition.leader in partition.isr

    def teardown(self) -> None:
        """Once every broker is back, every partition has a leader, and nothing is left to do."""
        if not self.image.partitions:
            return
        for b in range(BROKERS):
            self.restart(b, lost=False)
        for _ in range(2):
            self.write(decide_reconcile(self.image, unsettled(self.image)))
            for b in range(BROKERS):
                self.unfence(b)
        self.write(decide_reconcile(self.image, unsettled(self.image)))
        assert unsettled(self.image) == []
        assert all(p.leader in p.isr for p in self.image.partitions.values())


Elections.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestElections = pytest.mark.rule(14, 12, 21, 22)(pytest.mark.feature(110)(Elections.TestCase))
