"""Random histories of groups whose members change their protocol: every partition has one owner."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from consumer_groups import Client, ConsumerShard, flat
from groups import WAITS, KnownTopics, id_of

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicId, TopicPartition
from ottla_group_coordinator.machines.consumer.member import JOINS
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings, ConsumerSettings
from ottla_group_coordinator.machines.membership import CallerIdentity, GroupSettings, check_generation, check_member
from ottla_group_coordinator.machines.responses import Joined, Synced

SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=0, consumer=ConsumerGroupsSettings(ConsumerSettings(assignment_interval_ms=0))
)
SUBSCRIPTION = encode_subscription(Subscription(("t", "u")))
KEYS = itertools.count()


@dataclass
class Classic:
    """A client of the classic protocol that gives everything up before it joins again."""

    shard: ConsumerShard
    member_id: str = ""
    generation: int = -1
    owned: set[TopicPartition] = field(default_factory=set)
    waits_for: str = ""
    leads: tuple[str, ...] = ()

    def go_on(self) -> None:
        if self.waits_for:
            answer = self.shard.answers.pop(self.waits_for, WAITS)
            if answer is WAITS:
                return
            self.waits_for = ""
            self.on_answer(answer)
        elif self.generation < 0:
            self.join()
        else:
            told = self.shard.heartbeat(self.member_id, self.generation)
            if told is not None:
                self.on_answer(told)

    def join(self) -> None:
        self.owned, self.generation = set(), -1
        key = f"join-{next(KEYS)}"
        self.on_answer(self.shard.join(self.member_id, key=key, protocols={"range": SUBSCRIPTION}), key)

    def on_answer(self, answer: object, key: str = "") -> None:
        match answer:
            case Joined():
                self.member_id, self.generation = answer.member_id, answer.generation
                members = [m.member_id for m in answer.members]
                key = f"sync-{next(KEYS)}"
                assignments = self.share(members) if members else None
                self.on_answer(self.shard.sync(self.member_id, self.generation, assignments, key=key), key)
            case Synced():
                self.owned = set(decode_assignment(answer.assignment).partitions)
            case OttlaError():
                if answer.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                    self.member_id = ""
                self.owned, self.generation = set(), -1
            case _:
                assert answer is WAITS
                self.waits_for = key

    def share(self, members: list[str]) -> dict[str, bytes]:
        topics = self.shard.known.topics.values()
        every = sorted(TopicPartition(topic.name, n) for topic in topics for n in range(topic.partition_count))
        return {m: encode_assignment(MemberAssignment(tuple(every[n :: len(members)]))) for n, m in enumerate(members)}

    def leave(self) -> None:
        if self.member_id:
            self.shard.leave(self.member_id)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.shard = ConsumerShard(SETTINGS, known=KnownTopics(t=4, u=3))
        self.shard.checks_purity = True
        self.often = self.chance.choice([0.0, 0.0, 0.2, 1.0])
        self.shard.takes_over = lambda: self.chance.random() < self.often
        self.clients: list[Client | Classic] = []
        self.count = 0

    def act(self) -> None:
        acts: list[tuple[int, Callable[[], object]]] = [
            (2, self.join),
            (24, self.go_on),
            (2, self.leave),
            (1, self.vanish),
            (2, self.change_protocol),
            (2, lambda: self.shard.sleep(self.chance.uniform(0.1, 6))),
            (1, self.shard.take_over),
        ]
        self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def join(self) -> None:
        if len(self.clients) < 5:
            self.clients.append(self.classic() if self.chance.random() < 0.5 else self.consumer())

    def classic(self) -> Classic:
        return Classic(self.shard)

    def consumer(self) -> Client:
        self.count += 1
        return Client(self.shard, f"c{self.count}", more={"topics": frozenset({"t", "u"})})

    def go_on(self) -> None:
        if self.clients:
            self.step(self.chance.choice(self.clients))

    def step(self, client: Client | Classic) -> None:
        if isinstance(client, Classic):
            client.go_on()
        elif self.chance.random() < 0.5:
            client.settle()
        else:
            client.beat()

    def leave(self) -> None:
        if self.clients:
            client = self.clients.pop(self.chance.randrange(len(self.clients)))
            client.leave()

    def vanish(self) -> None:
        if self.clients:
            self.clients.pop(self.chance.randrange(len(self.clients)))

    def change_protocol(self) -> None:
        """A rolling restart takes one more member to the other protocol."""
        if self.clients:
            place = self.chance.randrange(len(self.clients))
            client = self.clients[place]
            client.leave()
            self.clients[place] = self.consumer() if isinstance(client, Classic) else self.classic()

    # ---- what holds -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        one, other = self.shard.machine.consumer_group("g"), self.shard.machine._groups.get("g")
        assert one is None or other is None or not other.members, "a group has one protocol"
        owners: dict[tuple[TopicId, int], str] = {}
        for name, partition in self.accepted():
            assert owners.setdefault(partition, name) == name, f"{name} and {owners[partition]} own {partition}"

    def accepted(self) -> Iterator[tuple[str, tuple[TopicId, int]]]:
        """Yield what clients own in an epoch or generation in which their commits are taken."""
        consumers = self.shard.machine.consumer_group("g")
        for client in self.clients:
            if isinstance(client, Client):
                owned, epoch = flat(client.owned), client.epoch
            else:
                owned, epoch = {(id_of(p.topic), p.partition) for p in client.owned}, client.generation
            if consumers is not None:
                member = consumers.members.get(client.member_id)
                is_taken = member is not None and member.epoch == epoch
            else:
                is_taken = self.is_classic_member(client.member_id, epoch)
            yield from ((client.member_id, partition) for partition in owned if is_taken)

    def is_classic_member(self, member_id: str, generation: int) -> bool:
        try:
            check_member(self.shard.group(), CallerIdentity(member_id))
            check_generation(self.shard.group(), generation)
        except OttlaError:
            return False
        return True

    def go_back(self) -> None:
        """The last members of the consumer protocol go, and then the coordinator."""
        for client in [c for c in self.clients if isinstance(c, Client)]:
            client.leave()
            self.clients.remove(client)
        self.shard.take_over()

    def check_settles(self) -> None:
        # Members that have gone keep their sessions for as long as coordinators come and go.
        self.often = 0.0
        for _ in range(40):
            for client in self.clients:
                if isinstance(client, Client):
                    client.beat()
                    client.settle()
                else:
                    client.go_on()
            self.shard.sleep(2)
        if not self.clients or all(isinstance(c, Client) and c.epoch == JOINS for c in self.clients):
            return
        owned = [partition for _, partition in self.accepted()]
        wanted = {(topic.id, n) for topic in self.shard.known.topics.values() for n in range(topic.partition_count)}
        assert len(owned) == len(set(owned))
        assert set(owned) == wanted, "every partition is read"


@pytest.mark.parametrize("seed", range(80))
def test_every_partition_has_one_owner_while_members_change_their_protocol(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.act()
        world.check()
    world.check_settles()
    world.go_back()
    world.check_settles()
