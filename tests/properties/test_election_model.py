"""Any order of deaths, restarts, proposals and elections, against a model of who has every acknowledged record.

The model knows of each partition which replicas are complete. A write reaches the ISR, and nobody else, and none is
acknowledged while the ISR is below min.insync.replicas, which changes now and then; a restart may lose the end of
everything that a broker has, or its disk. Decisions may be made from an image that is out of date, and are then
written only where all that they relied on still holds. That compare is the only guard here: the order in which the
journal writes them is left out. A failure names its seed; `run(seed)` repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from images import topic_id
from partitions import broker as registration

from ottla_broker.machines.departure import is_relied_upon
from ottla_controller.machines.brokers import decide_controlled_shutdown, decide_remove_dead
from ottla_controller.machines.configs import Op, OpKind, Resource, ResourceKind, decide_alter_configs
from ottla_controller.machines.decision import Decision, ReliedOn
from ottla_controller.machines.election import decide_reconcile, needs_election
from ottla_controller.machines.isr import Proposal, decide_alter_partition
from ottla_controller.machines.min_isr import with_elrs_emptied
from ottla_controller.machines.preferred import ElectionType, decide_elect_leaders
from ottla_controller.machines.recovery import LogEnd, LogsReport, decide_recover, to_ask
from ottla_core.cluster.image import Change, ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode
from ottla_core.model import NO_LEADER, PartitionId

SEEDS = 150
STEPS = 300
BROKERS = 4
PARTITIONS = [PartitionId(topic_id(1), n) for n in range(3)]


class Elections:
    """A cluster, and the truth about its logs. `seen` counts what has happened, so that a test can't go blind."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.unclean_allowed = self.random.random() < 0.3
        self.image = ClusterImage("test")
        self.complete: dict[PartitionId, set[int]] = {}
        self.fetched: dict[tuple[PartitionId, int], int] = {}  # the epoch of the life that caught up
        self.tail_lost: set[int] = set()  # what a broker keeps on its disk
        self.disks: Counter[int] = Counter()  # how many a broker has lost
        self.decided: list[Decision[Any]] = []  # and not written yet
        self.operator = False  # whether somebody has just asked for an unclean election
        self.seen: Counter[str] = Counter()
        self.begin()

    def begin(self) -> None:
        configs = {
            "unclean.leader.election.enable": str(self.unclean_allowed).lower(),
            "min.insync.replicas": str(self.random.choice([1, 2, 2, 3])),
        }
        changes = [Change(("topic", "t"), Topic("t", topic_id(1), len(PARTITIONS), configs, 1))]
        for n, id_ in enumerate(PARTITIONS):
            replicas = tuple((n + r) % BROKERS for r in range(3))
            changes.append(Change(("partition", id_), Partition(replicas, replicas[0], 0, replicas, mod_revision=1)))
            self.complete[id_] = set(replicas)
        self.image = self.image.with_changes(changes, 1)
        for b in range(BROKERS):
            self.register(b, unclean=False, fenced=False)

    def step(self) -> None:
        weighted: list[tuple[int, Callable[[], None]]] = [
            (3, self.die),
            (2, self.proven_dead),
            (4, self.restart),
            (1, self.lose_disk),
            (1, self.change_min_isr),
            (6, self.recover),
            (4, self.bounce),
            (20, self.unfence),
            (1, self.shut_down),
            (8, self.acknowledge),
            (35, self.catch_up),
            (30, self.propose),
            (20, self.reconcile),
            (4, self.elect_preferred),
            (3, self.elect_unclean),
            (12, self.write_late),
        ]
        (action,) = self.random.choices([a for _, a in weighted], [w for w, _ in weighted])
        action()
        self.check_form()

    def a_broker(self) -> int:
        return self.random.randrange(BROKERS)

    def a_partition(self) -> PartitionId:
        return self.random.choice(PARTITIONS)

    def some_brokers(self) -> set[int]:
        return {b for b in range(BROKERS) if self.random.random() < 0.6}

    # ---- what happens to brokers -----------------------------------------------------------------------------------

    def register(self, b: int, *, unclean: bool, fenced: bool) -> None:
        revision = self.image.revision + 1
        life = registration(
            b, epoch=revision, unclean=unclean, fenced=fenced, mod_revision=revision, directory_id=self.directory(b)
        )
        self.image = self.image.with_changes([Change(("broker", b), life)], revision)

    def directory(self, b: int) -> str:
        return f"directory-{b}-{self.disks[b]}"

    def die(self) -> None:
        self.image = self.image.with_changes([Change(("broker", self.a_broker()), None)], self.image.revision + 1)

    def proven_dead(self) -> None:
        if (life := self.image.brokers.get(self.a_broker())) is not None:
            self.write_or_keep(decide_remove_dead(self.image, life.id, life.epoch))

    def restart(self) -> None:
        self.restart_one(self.a_broker(), lost=self.random.random() < 0.3)

    def restart_one(self, b: int, *, lost: bool) -> None:
        """Also within its lease. Who may have lost records says so until it was unfenced, through more restarts too."""
        if lost:
            self.tail_lost.add(b)
            if self.random.random() < 0.5:  # else nothing was lost, and nobody can know that
                self.lose_all(b)
        self.register(b, unclean=b in self.tail_lost, fenced=True)

    def lose_all(self, b: int) -> None:
        for complete in self.complete.values():
            complete.discard(b)

    def lose_disk(self) -> None:
        """Only its new directory's id tells, now and then."""
        b = self.a_broker()
        self.disks[b] += 1
        self.lose_all(b)
        self.tail_lost.add(b)
        self.register(b, unclean=self.random.random() < 0.5, fenced=True)
        self.seen["disk lost"] += 1

    def bounce(self) -> None:
        """So quick that nobody notices, but for its epoch."""
        b = self.a_broker()
        self.restart_one(b, lost=False)
        self.unfence_one(b)

    def unfence(self) -> None:
        self.unfence_one(self.a_broker())

    def unfence_one(self, b: int) -> None:
        """A broker that may have lost records first leaves every ISR and ELR, and leads nothing (rule C15)."""
        life = self.image.brokers.get(b)
        if life is None or not life.fenced or (b in self.tail_lost and is_relied_upon(self.image, b)):
            return
        self.tail_lost.discard(b)
        revision = self.image.revision + 1
        unfenced = replace(life, fenced=False, unclean=False, mod_revision=revision)
        self.image = self.image.with_changes([Change(("broker", b), unfenced)], revision)

    def shut_down(self) -> None:
        if (life := self.image.brokers.get(self.a_broker())) is not None:
            self.write_or_keep(decide_controlled_shutdown(self.image, life.id, life.epoch))

    # ---- what leaders do -------------------------------------------------------------------------------------------

    def acknowledge(self) -> None:
        """A record: on all of the maximal ISR, or it is not acknowledged (rule 6). Others lack something then."""
        id_ = self.a_partition()
        partition = self.image.partitions[id_]
        maximal = set(partition.isr) | self.proposed(id_)
        if len(partition.isr) < self.min_isr:  # the leader has it, and nobody is told so
            return
        if maximal <= self.image.brokers.keys() and partition.leader in maximal:
            self.complete[id_] &= maximal
            self.forget_fetches(id_, but=maximal)

    @property
    def min_isr(self) -> int:
        return int(self.image.topics["t"].configs["min.insync.replicas"])

    def proposed(self, id_: PartitionId) -> set[int]:
        """Who is on the way into the ISR, by a proposal that is not committed yet."""
        writes = [w.change for decision in self.decided for w in decision.writes]
        return {b for change in writes if change.key == ("partition", id_) for b in change.value.isr}

    def forget_fetches(self, id_: PartitionId, *, but: Set[int] = frozenset()) -> None:
        self.fetched = {(p, b): epoch for (p, b), epoch in self.fetched.items() if p != id_ or b in but}

    def catch_up(self) -> None:
        id_, b = self.a_partition(), self.a_broker()
        if b in self.image.brokers and b in self.image.partitions[id_].replicas:
            self.fetched[id_, b] = self.image.brokers[b].epoch

    def propose(self) -> None:
        id_ = self.a_partition()
        partition = self.image.partitions[id_]
        leader = self.image.brokers.get(partition.leader)
        if leader is None:
            return
        isr = {leader.id} | {b for b in self.some_brokers() if b in partition.isr or (id_, b) in self.fetched}
        epochs = {b: self.image.brokers[b].epoch if b in self.image.brokers else 0 for b in isr}
        epochs |= {b: self.fetched[id_, b] for b in isr if (id_, b) in self.fetched and b not in partition.isr}
        proposal = Proposal(
            id_,
            partition.leader_epoch,
            partition.partition_epoch - (self.random.random() < 0.1),
            tuple(epochs.items()),
            recovered=partition.recovering,
        )
        decision = decide_alter_partition(self.image, leader.id, leader.epoch, [proposal])
        error = decision.response[0].error
        if error is not None:
            self.seen[ErrorCode(error.code).name] += 1
        self.write_or_keep(decision)

    # ---- what the controller does ----------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """The brake spares nobody who may have lost records."""
        within_grace = self.some_brokers() if self.random.random() < 0.3 else set()
        kept = frozenset(b for b in within_grace if not (b in self.image.brokers and self.image.brokers[b].unclean))
        left = needs_election(self.image, kept)[: self.random.randint(1, 3)]
        self.write_or_keep(decide_reconcile(self.image, left, kept))

    def recover(self) -> None:
        """Logs are as long as the model says, and brokers may have started anew since they were asked."""
        asked = to_ask(self.image)
        reports = {}
        for b, ids in asked.items():
            former = self.random.random() < 0.1  # of its life before this one, which had more
            ends = {id_: LogEnd(0, 100 if former or b in self.complete[id_] else 99) for id_ in ids}
            reports[b] = LogsReport(self.image.brokers[b].epoch - former, ends)
        for id_ in {id_ for ids in asked.values() for id_ in ids}:
            self.write_or_keep(decide_recover(self.image, [id_], reports))

    def change_min_isr(self) -> None:
        ops = [Op("min.insync.replicas", OpKind.SET, str(self.random.choice([1, 2, 2, 3])))]
        decision = decide_alter_configs(self.image, Resource(ResourceKind.TOPIC, "t"), ops)
        self.write(with_elrs_emptied(self.image, decision))

    def elect_preferred(self) -> None:
        self.write_or_keep(decide_elect_leaders(self.image, ElectionType.PREFERRED, [self.a_partition()]))

    def elect_unclean(self) -> None:
        """An operator's word: at once, for it counts only for what the operator saw."""
        self.operator = True
        self.write(decide_elect_leaders(self.image, ElectionType.UNCLEAN, [self.a_partition()]))
        self.operator = False

    def write_late(self) -> None:
        if self.decided:
            self.write(self.decided.pop(0))

    def write_or_keep(self, decision: Decision[Any]) -> None:
        """A fifth of what is decided is written later."""
        if self.random.random() < 0.2:
            self.decided.append(decision)
        else:
            self.write(decision)

    def write(self, decision: Decision[Any]) -> None:
        """All of it or nothing, as a transaction does, and check each step that a partition takes."""
        if not all(self.holds(seen) for write in decision.writes for seen in write.relied_on):
            self.seen["lost race"] += 1
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
        if seen.key[0] == "configs":
            return True  # the cluster's, which nobody changes
        kind, identity = seen.key
        entry = getattr(self.image, f"{kind}s").get(identity)
        created = getattr(entry, "epoch", 0)
        modified = getattr(entry, "mod_revision", 0)
        return seen.create_revision in (None, created) and seen.mod_revision in (None, modified)

    # ---- what must hold --------------------------------------------------------------------------------------------

    def check_step(self, id_: PartitionId, before: Partition, now: Partition) -> None:
        assert now.partition_epoch == before.partition_epoch + 1
        assert now.leader_epoch == before.leader_epoch + (now.leader != before.leader)
        assert now.replicas == before.replicas
        complete = self.complete[id_]
        if now.leader == before.leader:
            for b in set(now.isr) - set(before.isr):  # it joined: its leader had seen this very life catch up
                assert self.fetched.get((id_, b)) == self.image.brokers[b].epoch
                complete.add(b)
                self.seen["joined"] += 1
            return
        self.forget_fetches(id_)
        if now.leader == NO_LEADER:
            self.seen["offline"] += 1
            return
        assert now.leader in self.image.brokers
        if now.leader in (*before.isr, *before.elr):  # who has every acknowledged record
            assert now.leader in complete
            self.seen["elected" if now.leader in before.isr else "elected from the ELR"] += 1
        else:
            assert now.recovering
            assert (now.isr, now.elr) == ((now.leader,), ())
            self.seen["unclean"] += 1
            if not (self.unclean_allowed or self.operator):  # nobody is elected by himself beside an empty disk
                assert all(before.directories[b] == self.directory(b) for b in before.last_known_elr)
            if now.leader in complete:
                self.seen["nothing lost"] += 1
            elif not (
                self.unclean_allowed or self.operator
            ):  # all who had everything are back, and none has it any more
                assert not complete & set(before.last_known_elr)
                self.seen["recovered"] += 1
        if now.leader not in complete:
            self.complete[id_] = {now.leader}

    def check_form(self) -> None:
        for partition in self.image.partitions.values():
            assert not set(partition.elr) & {*partition.isr, *partition.last_known_elr}
            assert len(partition.isr) < self.min_isr or not partition.elr
            assert len(set(partition.isr)) == len(partition.isr)
            assert set(partition.isr) <= set(partition.replicas)
            assert partition.leader == NO_LEADER or partition.leader in partition.isr

    def heal(self) -> None:
        """Once every broker is back, every partition has a leader, and nothing is left to do."""
        for b in range(BROKERS):
            self.restart_one(b, lost=False)
        for _ in range(3):
            self.write(decide_reconcile(self.image, needs_election(self.image)))
            for b in range(BROKERS):
                self.unfence_one(b)
        self.write(decide_reconcile(self.image, needs_election(self.image)))
        for _ in range(3):  # a report in twenty is of another life
            self.recover()
            while self.decided:
                self.write_late()
        self.write(decide_reconcile(self.image, needs_election(self.image)))
        assert needs_election(self.image) == []
        for partition in self.image.partitions.values():
            disks_lost = any(self.directory(b) != d for b, d in partition.directories.items())
            assert partition.leader in partition.isr or disks_lost, "an empty disk is an operator's to believe"


def run(seed: int) -> Counter[str]:
    elections = Elections(seed)
    for _ in range(STEPS):
        elections.step()
    elections.heal()
    return elections.seen


@pytest.mark.rule(12, 14, 21, 22)
@pytest.mark.feature(110)
def test_no_order_of_events_elects_who_lacks_an_acknowledged_record() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            seen += run(seed)
        except Exception as error:
            raise AssertionError(f"run({seed}) failed: {error!r}") from error
    print(dict(seen))
    usual = ("joined", "elected", "elected from the ELR", "unclean", "recovered", "disk lost", "offline", "lost race")
    assert all(seen[name] > SEEDS / 8 for name in usual)
    assert all(seen[name] > SEEDS / 2 for name in ("INELIGIBLE_REPLICA", "INVALID_UPDATE_VERSION"))
