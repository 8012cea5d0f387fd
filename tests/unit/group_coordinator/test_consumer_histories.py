"""Random histories of a consumer group's members: no partition has two owners, and the group always settles."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy

import pytest
from consumer_groups import Client, ConsumerShard, flat, settings, settle, written

from ottla_core.coordination.shard import Entry, Record
from ottla_core.errors import OttlaError
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer import target
from ottla_group_coordinator.machines.consumer.commits import check_commit
from ottla_group_coordinator.machines.consumer.member import JOINS, LEAVES_FOR_NOW
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeatAnswer
from ottla_group_coordinator.machines.consumer.topics import hash_of

STEPS = 120


class Members:
    """Clients that join and leave. Each owns its new assignment once it has taken its step."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.is_large = seed % 3 == 0
        """Whether all targets are made in steps, outside of decisions."""
        self.shard = ConsumerShard(settings(assignment_interval_ms=self.chance.choice([0, 1_500])))
        self.shard.checks_purity = True
        self.often = self.chance.choice([0.0, 0.0, 0.2, 1.0])
        self.shard.takes_over = lambda: self.chance.random() < self.often
        self.clients: list[Client] = []
        self.count = 0

    def act(self) -> None:
        acts: list[tuple[int, Callable[[], object]]] = [
            (2, self.join),
            (14, self.beat),
            (8, self.take_step),
            (3, self.lose_response),
            (1, self.leave),
            (1, self.come_back),
            (1, self.subscribe),
            (1, self.change_topics),
            (1, self.vanish),
            (2, lambda: self.shard.sleep(self.chance.uniform(0.1, 8))),
            (1, self.shard.take_over),
            (2, lambda: self.shard.resolve()),
            (6, lambda: self.shard.assign(self.chance.randrange(30))),
        ]
        self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def join(self) -> None:
        if len(self.clients) < 6:
            self.count += 1
            static = {"instance_id": f"i{self.count % 3}"} if self.chance.random() < 0.4 else {}
            assignor = {"assignor": self.chance.choice(["uniform", "range"])} if self.chance.random() < 0.3 else {}
            client = Client(self.shard, f"m{self.count}", more={**static, **assignor, **self.subscription()})
            client.reports_always = self.chance.random() < 0.5
            self.clients.append(client)
            client.beat()

    def subscription(self) -> dict[str, object]:
        if self.chance.random() < 0.3:
            return {"topics": frozenset(), "regex": self.chance.choice(["t.*", "[tu]", "x"])}
        return {"topics": frozenset(self.chance.choice([["t"], ["u"], ["t", "u"], ["t", "x"]])), "regex": ""}

    def one(self) -> Client | None:
        return self.chance.choice(self.clients) if self.clients else None

    def beat(self) -> None:
        if (client := self.one()) is not None:
            client.beat()

    def take_step(self) -> None:
        if (client := self.one()) is not None:
            client.settle()

    def lose_response(self) -> None:
        if (client := self.one()) is not None:
            client.loses = True
            client.beat()

    def leave(self) -> None:
        if (client := self.one()) is not None:
            client.leave()
            self.clients.remove(client)

    def come_back(self) -> None:
        """A static member goes and comes back, with its own id or with a new one."""
        client = self.one()
        if client is None or "instance_id" not in client.more or client.epoch == JOINS:
            return
        answer = self.shard.beat(client.member_id, LEAVES_FOR_NOW, instance_id=client.more["instance_id"])
        if isinstance(answer, ConsumerHeartbeatAnswer):
            self.clients.remove(client)
            self.count += 1
            member_id = client.member_id if self.chance.random() < 0.5 else f"m{self.count}"
            self.clients.append(Client(self.shard, member_id, more=client.more, reports_always=client.reports_always))
            self.clients[-1].beat()

    def subscribe(self) -> None:
        if (client := self.one()) is not None and client.epoch != JOINS:
            changed = self.subscription()
            client.more |= changed
            client.beat(**changed)

    def change_topics(self) -> None:
        name = self.chance.choice(["t", "u", "x"])
        topic = self.shard.known.get(name)
        if topic is not None and self.chance.random() < 0.4:
            self.shard.known.delete(name)
        elif topic is None:
            self.shard.known.put(name, 3, life=self.chance.randrange(99))
        else:
            self.shard.known.topics[name] = topic.__class__(name, topic.id, topic.partition_count + 1)
            self.shard.known.version += 1

    def vanish(self) -> None:
        if (client := self.one()) is not None:
            self.clients.remove(client)

    # ---- what holds -----------------------------------------------------------------------------------------------

    def check_owners(self) -> None:
        """A partition that a client owns in an epoch that the coordinator takes is no other client's."""
        group = self.shard.machine.consumer_group("g")
        if group is None:
            return
        owners: dict[tuple[TopicId, int], str] = {}
        for client in self.clients:
            member = group.members.get(client.member_id)
            for partition in flat(client.owned):
                if member is None or not self.may_commit(client, partition):
                    continue  # it has lost the partition, and learns it with its next request
                assert partition not in owners, f"{client.member_id} and {owners[partition]} own {partition}"
                owners[partition] = client.member_id
        assigned: dict[tuple[TopicId, int], str] = {}
        for member in group.members.values():
            for partition in flat(member.current.assigned) | flat(member.current.revoking):
                assert partition not in assigned
                assigned[partition] = member.member_id
                assert group.owner(*partition) == member.member_id
        assert group.reported.keys() <= group.members.keys(), "what is known of a member goes with it"
        assert group.resolved.keys() <= group.regexes.keys(), "matches go with the last member that has the expression"
        if group.seen.version == self.shard.known.version and group.reads_what_was_hashed:
            assert group.seen.hash == hash_of(group.subscribed_topics(), self.shard.known)
        assert 0 not in [client.epoch for client in self.clients if client.told], "it has joined"

    def may_commit(self, client: Client, partition: tuple[TopicId, int]) -> bool:
        try:
            check_commit(
                self.shard.consumers(),
                client.member_id,
                client.epoch,
                [partition],
                is_anonymous=False,
                knows_no_epochs=False,
            )
        except OttlaError:
            return False
        return True

    def check_replay(self) -> None:
        """The state is what another coordinator reads in the log, in whatever order it reads it."""
        last = {entry.key: entry for entry in self.shard.log if isinstance(entry, Entry)}
        log: list[Record] = self.chance.sample(list(last.values()), len(last))
        there = ConsumerShard(self.shard.settings, log, self.shard.known)
        mine, others = (each.machine.consumer_group("g") for each in (self.shard, there))
        if mine is None or others is None:
            assert mine is others
            return
        assert written(mine) == written(others)

    def check_settles(self) -> None:
        """Check that the members soon have all partitions of their topics, and that each partition has one reader."""
        # Members that have gone keep their sessions for as long as coordinators come and go.
        self.often = 0.0
        for client in self.clients:
            client.loses = self.chance.random() < 0.3
        # All sessions of members that have gone end. A rebalance timeout ends only if a coordinator has taken over: the
        # new one may tell a member to give up partitions that a lost response was to give it.
        for _ in range(26 if self.shard.takeovers else 16):
            for client in self.clients:
                client.beat()
                client.settle()
            self.shard.resolve()
            self.shard.assign()
            self.shard.sleep(3)
        settled = [client for client in self.clients if client.epoch != JOINS]
        if not settled:
            return
        settle(*settled, rounds=3)
        group = self.shard.consumers()
        assert set(group.members) == {client.member_id for client in settled}
        read = {t for m in group.members.values() for t in self.shard.known.topics if group.reads(m, t)}
        wanted = {
            (topic.id, number)
            for name in read
            for topic in [self.shard.known.topics[name]]
            for number in range(topic.partition_count)
        }
        owned = [partition for client in settled for partition in flat(client.owned)]
        assert len(owned) == len(set(owned))
        assert set(owned) == wanted, "each partition that a member reads has a reader"


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_has_two_owners_and_every_group_settles(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    members = Members(seed)
    if members.is_large:
        monkeypatch.setattr(target, "_AT_ONCE", 0)
        monkeypatch.setattr(target, "_A_PART", 1 + seed % 2)
    for step in range(STEPS):
        members.act()
        members.check_owners()
        if step % 10 == 0:
            members.check_replay()
    members.check_replay()
    members.check_settles()


def test_a_refused_request_leaves_no_trace_in_the_group() -> None:
    """A decision that raises leaves no trace, although it has changed the group on its way."""
    members = Members(1)
    for _ in range(30):
        members.join()
        members.beat()
        members.take_step()
    before = deepcopy(vars(members.shard.consumers()))
    client = members.clients[0]
    answer = members.shard.beat(client.member_id, client.epoch, topics=["u"], regex="(")
    assert isinstance(answer, OttlaError)
    members.check_replay()
    assert vars(members.shard.consumers()) == before
