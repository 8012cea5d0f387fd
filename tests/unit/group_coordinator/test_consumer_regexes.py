"""Regular expressions in consumer groups: matched once for all members, refreshed, and deleted with the last one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from threading import get_ident
from time import thread_time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from consumer_groups import Client, ConsumerShard, partitions, settings, settle
from groups import KnownTopics, code
from images import image_of, with_topic
from waiting import until

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.resource import PatternType, ResourceType
from ottla_group_coordinator import regex_resolver
from ottla_group_coordinator.machines.consumer import regexes
from ottla_group_coordinator.machines.consumer.draft import Draft
from ottla_group_coordinator.machines.consumer.heartbeat import answer_if_quiet
from ottla_group_coordinator.machines.consumer.member import LEAVES, LEAVES_FOR_NOW
from ottla_group_coordinator.machines.consumer.records import (
    MemberKey,
    RegexKey,
    ResolvedRegex,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla_group_coordinator.machines.consumer.regexes import (
    LONGEST_BYTES,
    REFRESH_S,
    Found,
    ResolveRegexes,
    decide_resolved,
    patterns_to_match,
)
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeat, Reader
from ottla_group_coordinator.machines.consumer.topics import ImageTopics
from ottla_group_coordinator.regex_resolver import RegexResolver
from ottla_proto.operation import Operation

REGEX: dict[str, Any] = {"topics": frozenset(), "regex": "[tu]"}


@pytest.fixture
def shard() -> ConsumerShard:
    return ConsumerShard(settings())


def test_a_member_gets_its_matches_once_they_are_found(shard: ConsumerShard) -> None:
    assert shard.beat("m1", **REGEX).assignment == {}
    assert shard.asked == [ResolveRegexes("g", None)]
    shard.resolve()
    answer = shard.beat("m1", 2)
    assert (answer.epoch, answer.assignment) == (3, partitions(t=range(4), u=range(4)))


def test_members_with_one_expression_share_its_matches(shard: ConsumerShard) -> None:
    settle(Client(shard, "m1", more=REGEX))
    epoch = shard.consumers().epoch
    shard.beat("m2", **REGEX)
    assert shard.asked == []
    assert shard.consumers().epoch == epoch + 1


def test_a_new_expression_is_matched_at_once(shard: ConsumerShard) -> None:
    settle(Client(shard, "m1", more=REGEX))
    shard.beat("m2", topics=(), regex="t.*")
    assert shard.asked == [ResolveRegexes("g", None)]
    assert patterns_to_match(shard.consumers()) == ("t.*",)


def test_new_topics_are_found_after_ten_seconds_and_begin_an_epoch(shard: ConsumerShard) -> None:
    member = Client(shard, "m1", more={"topics": frozenset(), "regex": "[a-z]"})
    settle(member)
    epoch = shard.consumers().epoch
    shard.known.put("z", 2)
    member.beat()
    shard.known.put("y", 2)
    member.beat()
    assert len(shard.asked) <= 1, "it was refreshed a moment ago"
    shard.sleep(REFRESH_S)
    member.beat()
    shard.resolve()
    assert shard.consumers().epoch > epoch
    settle(member)
    assert set(member.owned) == set(partitions(t=[0], u=[0], z=[0], y=[0]))


def test_a_new_expression_that_matches_nothing_leaves_its_members_partitions_to_others(shard: ConsumerShard) -> None:
    first, second = Client(shard, "m1", more=REGEX), Client(shard, "m2", more={"topics": frozenset("tu")})
    settle(first, second)
    first.more = {"topics": frozenset(), "regex": "nothing"}
    first.beat(regex="nothing")
    settle(first, second)
    assert (first.owned, second.owned) == ({}, partitions(t=range(4), u=range(4)))


@pytest.mark.story("failed-refresh-is-not-repeated")
def test_a_refresh_that_fails_is_repeated_after_ten_seconds(shard: ConsumerShard) -> None:
    member = Client(shard, "m1", more={"topics": frozenset(), "regex": "[a-z]"})
    settle(member)
    shard.known.put("z", 2)
    shard.sleep(REFRESH_S)
    member.beat()
    assert shard.asked
    shard.asked.clear()
    shard.sleep(REFRESH_S - 1)
    member.beat()
    assert not shard.asked
    shard.sleep(1)
    member.beat()
    shard.resolve()
    assert "z" in shard.consumers().subscribed_topics()


def test_expressions_are_matched_again_when_the_refresh_interval_is_over(shard: ConsumerShard) -> None:
    member = Client(shard, "m1", more=REGEX)
    settle(member)
    began_at = shard.at
    for _ in range(60):
        if not shard.asked:
            shard.sleep(20)
            member.beat()
    assert 600 <= shard.at - began_at <= 640


def test_matches_that_stay_the_same_write_nothing(shard: ConsumerShard) -> None:
    member = Client(shard, "m1", more=REGEX)
    settle(member)
    shard.known.put("other", 2)
    before = len(shard.log)
    shard.sleep(REFRESH_S)
    member.beat()
    assert shard.asked
    shard.resolve()
    member.beat()
    assert len(shard.log) == before


@pytest.mark.parametrize("go", ["leave", "session", "change", "forget"])
def test_matches_are_deleted_with_the_last_member_that_has_the_expression(shard: ConsumerShard, go: str) -> None:
    first, second = Client(shard, "m1", more=REGEX), Client(shard, "m2", more=REGEX)
    settle(first, second)
    first.leave()
    assert list(shard.consumers().resolved) == ["[tu]"]
    match go:
        case "leave":
            second.leave()
        case "session":
            shard.sleep(46)
        case "change":
            second.beat(regex="x")
        case "forget":
            second.beat(regex="", topics=["t"])
    assert not shard.consumers().resolved
    assert not shard.consumers()._matched


@pytest.mark.story("matches-without-a-member")
def test_matches_are_deleted_with_a_member_whose_id_a_static_member_takes(shard: ConsumerShard) -> None:
    static = Client(shard, "m1", more={**REGEX, "instance_id": "i"})
    other = Client(shard, "m2", more={"topics": frozenset(), "regex": "t"})
    settle(static, other)
    assert set(shard.consumers().resolved) == {"[tu]", "t"}
    shard.beat("m1", LEAVES_FOR_NOW, instance_id="i")
    back = Client(shard, "m2", more={**REGEX, "instance_id": "i"})
    settle(back)
    assert set(shard.consumers().resolved) == {"[tu]"}
    assert back.owned == partitions(t=range(4), u=range(4))


def test_matches_that_no_member_has_any_longer_are_deleted_by_the_next_decision(shard: ConsumerShard) -> None:
    settle(Client(shard, "m1", more=REGEX))
    names = frozenset("tu")
    for n in range(30):
        key = RegexKey("g", "x" * 10_000 + str(n))
        shard.apply(Entry(encode_consumer_key(key), encode_consumer_value(key, ResolvedRegex(names))))
    assert len(shard.consumers().resolved) == 31
    for n in range(9):
        before = len(shard.log)
        shard.beat("m1", shard.member("m1").epoch, rebalance_timeout_ms=1_000 + n)
        assert size_limit(shard.log[before:]) < 50_000
    assert set(shard.consumers().resolved) == {"[tu]"}


def test_a_large_decision_leaves_matches_that_no_member_has_to_a_later_one(shard: ConsumerShard) -> None:
    settle(Client(shard, "m1", more=REGEX))
    key = RegexKey("g", "x")
    shard.apply(Entry(encode_consumer_key(key), encode_consumer_value(key, ResolvedRegex(frozenset("t")))))
    large = shard.member("m1").metadata._replace(client_id="c" * 20_000, client_host="h" * 20_000)
    with Draft(shard.consumers(), shard.now) as draft:
        draft.write(MemberKey("g", "m1"), large)
        assert len(draft.decision(None).records) == 1


def test_matches_that_come_after_their_member_has_left_are_dropped(shard: ConsumerShard) -> None:
    shard.beat("m1", **REGEX)
    shard.beat("m2")
    shard.beat("m1", LEAVES)
    epoch = shard.consumers().epoch
    shard.resolve()
    assert not shard.consumers().resolved
    assert shard.consumers().epoch == epoch


def test_an_invalid_expression_is_refused_before_anything_is_written(shard: ConsumerShard) -> None:
    for pattern in ("(", "a{9999}", "(?<=a)b"):
        assert code(shard.beat("m1", topics=(), regex=pattern)) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert shard.log == []
    assert shard.machine.consumer_group("g") is None


@pytest.mark.story("long-expression-stalls-a-coordinator")
def test_an_expression_that_is_too_long_is_refused_before_it_is_compiled(shard: ConsumerShard) -> None:
    for unit in ("a", "é"):
        longest = unit * (LONGEST_BYTES // len(unit.encode()))
        assert shard.beat(unit, topics=(), regex=longest).epoch > 0
        refused = shard.beat("m1", topics=(), regex=longest + "(")
        assert code(refused) == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "is longer than 2048 bytes" in refused.message


def test_a_coordinator_that_takes_over_requests_missing_matches(shard: ConsumerShard) -> None:
    shard.beat("m1", **REGEX)
    shard = ConsumerShard(shard.settings, shard.log, shard.known)
    shard.beat("m1", 2)
    assert shard.asked == [ResolveRegexes("g", None)]


# ---- the service's part ---------------------------------------------------------------------------------------------


class Service:
    """A resolver with a shard and an image."""

    def __init__(self) -> None:
        image = with_topic(with_topic(image_of(1), "t", 4, number=1), "u", 4, number=2)
        self.topics = ImageTopics(image)
        self.shard = ConsumerShard(settings(), known=cast(KnownTopics, self.topics))
        shards: Any = SimpleNamespace(ask=self._ask)
        self.resolver = RegexResolver(shards, self.topics)
        self.decided: list[str] = []

    @property
    def image(self) -> ClusterImage:
        return self.topics.image

    @image.setter
    def image(self, image: ClusterImage) -> None:
        self.topics.on_image(self.topics.image, image)

    def add_topics(self, letters: str, count: int, *, name_bytes: int) -> None:
        for n, letter in enumerate(letters):
            for k in range(count):
                name = f"{letter}{k:05}".ljust(name_bytes, "x")
                self.image = with_topic(self.image, name, 1, number=1_000 + n * count + k)

    def allow(self, topic: str, *, revision: int) -> None:
        """Let Alice describe this topic, and no other."""
        acl = Acl(
            ResourceType.TOPIC, topic, PatternType.LITERAL, "User:alice", "*", Operation.DESCRIBE, Permission.ALLOW
        )
        self.image = replace(self.image, acls={b"a" * 16: acl}, acls_revision=revision)

    async def _ask(self, group: str, decide: Any, *, timeout: float) -> Any:
        self.decided.append(group)
        decision = decide(self.shard.machine, self.shard.now)
        if size_limit(decision.records) > self.shard.settings.max_record_bytes:
            raise OttlaError(ErrorCode.RECORD_LIST_TOO_LARGE, "the records don't go into one batch")
        return self.shard.take(decision)

    async def resolved(self) -> dict[str, set[str]]:
        for effect in self.shard.asked:
            self.resolver.on_effect(0, 1, effect)
        self.shard.asked.clear()
        await until(lambda: not self.resolver._work._tasks)
        return {pattern: set(found.topics) for pattern, found in self.shard.consumers().resolved.items()}


async def test_an_expression_matches_whole_names() -> None:
    service = Service()
    service.image = with_topic(service.image, "tt", 1, number=3)
    service.shard.beat("m1", **REGEX)
    assert await service.resolved() == {"[tu]": {"t", "u"}}


async def test_a_reader_matches_only_what_it_may_describe() -> None:
    service = Service()
    service.allow("u", revision=1)
    service.shard.beat("m1", **REGEX, reader=Reader("User:alice", "10.0.0.1"))
    assert await service.resolved() == {"[tu]": {"u"}}
    service.shard.beat("m2", topics=(), regex="t|u", reader=Reader("User:alice", "10.0.0.1", sees_unlisted=True))
    assert (await service.resolved())["t|u"] == {"t", "u"}


async def test_matches_that_do_not_fit_into_one_batch_are_stored_in_several() -> None:
    service = Service()
    service.add_topics("abc", 40, name_bytes=200)
    service.shard.machine.settings = replace(service.shard.settings, max_record_bytes=12_000)
    service.shard.settings = service.shard.machine.settings
    for letter in "abc":
        service.shard.beat(letter, topics=(), regex=f"{letter}.*")
    assert {pattern: len(names) for pattern, names in (await service.resolved()).items()} == dict.fromkeys(
        ("a.*", "b.*", "c.*"), 40
    )


async def test_the_loop_goes_on_while_acls_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    made_in: list[int] = []

    def made(*acls: Any, **fields: Any) -> Authorizer:
        made_in.append(get_ident())
        return Authorizer(*acls, **fields)

    monkeypatch.setattr(regex_resolver, "Authorizer", made)
    service = Service()
    service.allow("u", revision=1)
    for n in range(3):
        service.shard.beat(f"m{n}", topics=(), regex=f"[tu]|{n}", reader=Reader("User:alice", "10.0.0.1"))
    assert (await service.resolved())["[tu]|2"] == {"u"}
    assert len(made_in) == 1, "once for each revision of the ACLs"
    assert made_in != [get_ident()]


@pytest.mark.story("matches-that-vanish-in-one-turn")
async def test_matches_that_vanish_together_are_taken_out_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_resolver, "_AT_ONCE_BYTES", 4_000)
    service = Service()
    before = service.image
    service.add_topics("a", 100, name_bytes=6)
    for n in range(12):
        service.shard.beat(f"m{n}", topics=(), regex=f"a.*|{n}")
    assert len((await service.resolved())["a.*|0"]) == 100
    service.image = replace(before, changed_partitions=None)
    service.shard.sleep(REFRESH_S)
    service.shard.beat("m0", service.shard.member("m0").epoch)
    service.decided.clear()
    assert not any((await service.resolved()).values())
    assert len(service.decided) >= 4, "1,200 names, of which 400 go at once"


@pytest.mark.story("one-expression-takes-others-along")
async def test_matches_that_no_record_can_hold_are_refused_and_others_are_stored() -> None:
    service = Service()
    service.add_topics("abc", 40, name_bytes=200)
    service.shard.machine.settings = replace(service.shard.settings, max_record_bytes=12_000)
    service.shard.settings = service.shard.machine.settings
    for pattern in ("a.*", "[a-z].*", "c.*"):
        service.shard.beat(pattern, topics=(), regex=pattern)
    assert list(await service.resolved()) == ["a.*", "c.*"]
    refused = service.shard.beat("[a-z].*", service.shard.member("[a-z].*").epoch)
    assert code(refused) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "matches 122 topics" in refused.message
    assert code(service.shard.beat("m4", topics=(), regex="[a-z].*")) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert service.shard.beat("a.*", service.shard.member("a.*").epoch).assignment
    service.shard.sleep(REFRESH_S)
    service.shard.beat("a.*", service.shard.member("a.*").epoch)
    assert not service.shard.asked, "refused matches are not requested again"


@pytest.mark.story("costly-expression-stalls-a-coordinator")
async def test_a_costly_expression_is_refused_and_delays_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_resolver, "_MOST_CPU_S", 0.2)
    service, chance = Service(), Random(2)
    for n in range(100):
        name = "".join(chance.choice("ab") for _ in range(240))
        service.image = with_topic(service.image, name, 1, number=3 + n)
    costly = "|".join(f"[ab]*a[ab]{{{n}}}" for n in range(40, 140))
    for n in range(3):
        service.shard.beat(f"m{n}", topics=(), regex=f"{costly}|{n}")
    service.shard.beat("other", group="h", **REGEX)
    longest_s = 0.0

    async def measure() -> None:
        nonlocal longest_s
        while True:
            began_at = thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, thread_time() - began_at)

    measuring = asyncio.create_task(measure())
    assert await service.resolved() == {}
    measuring.cancel()
    assert longest_s < 0.05, "a turn of the loop"
    assert service.shard.consumers("h").resolved
    assert service.decided.index("h") < 4, "it waits for one expression of the other group, and not for all"
    refused = service.shard.beat("m1", service.shard.member("m1").epoch)
    assert code(refused) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "takes too long" in refused.message


async def test_matching_yields_to_the_loop_even_without_topics() -> None:
    service = Service()
    service.image = replace(service.image, topics={}, topic_names={})
    for n in range(2_000):
        service.shard.beat(f"m{n}", topics=(), regex=f"{'x' * 200}{n}")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    assert len(await service.resolved()) == 2_000
    counting.cancel()
    assert turns > 10


def test_refusals_are_forgotten_with_their_expressions(shard: ConsumerShard) -> None:
    for n in range(10):
        shard.beat("m1", topics=(), regex=f"t{n}")
        found = Found({}, {f"t{n}": "it takes too long"}, 1)
        shard.take(decide_resolved(shard.consumers(), found, shard.known, shard.now))
        assert code(shard.beat("m1", shard.member("m1").epoch)) == ErrorCode.INVALID_REGULAR_EXPRESSION
        shard.beat("m1", LEAVES)
    assert len(shard.consumers().refused) == 1


async def test_equal_matches_are_kept_once() -> None:
    service = Service()
    for n in range(3):
        service.shard.beat(f"m{n}", topics=(), regex=f"[tu]|{n}")
    service.shard.beat("other", group="h", **REGEX)
    await service.resolved()
    there = ConsumerShard(service.shard.settings, service.shard.log, service.shard.known)
    groups = [there.consumers(), service.shard.consumers(), service.shard.consumers("h")]
    kept = [found.topics for group in groups for found in group.resolved.values()]
    assert len(kept) == 7
    assert len({id(topics) for topics in kept}) == 1


def test_a_group_with_too_many_matches_refuses_further_expressions(
    shard: ConsumerShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regexes, "MOST_MATCHES", 3)
    for member, pattern in (("m1", "[tu]"), ("m2", "t|u"), ("m3", "t"), ("m4", "u")):
        shard.beat(member, topics=(), regex=pattern)
        shard.resolve()
    assert list(shard.consumers().resolved) == ["[tu]", "t|u", "t"]
    refused = shard.beat("m4", shard.member("m4").epoch)
    assert code(refused) == ErrorCode.INVALID_REGULAR_EXPRESSION
    shard.beat("m3", LEAVES)
    shard.beat("m4", LEAVES)
    shard.beat("m4", topics=(), regex="u")
    shard.resolve()
    assert "u" in shard.consumers().resolved, "a member that joins again tries again"


def test_heartbeats_are_quiet_again_once_a_refused_expression_has_matches(shard: ConsumerShard) -> None:
    member = Client(shard, "m1", more=REGEX)
    member.beat()
    refused = Found({}, {"[tu]": "it takes too long"}, 1)
    shard.take(decide_resolved(shard.consumers(), refused, shard.known, shard.now))
    shard.asked.clear()
    found = Found({"[tu]": frozenset("tu")}, {}, 1, shard.known.matches_version)
    shard.take(decide_resolved(shard.consumers(), found, shard.known, shard.now))
    settle(member)
    beat = ConsumerHeartbeat("m1", member.epoch, client_id="client")
    assert answer_if_quiet(shard.consumers(), beat, shard.known, shard.settings.consumer.of("g"), shard.now) is not None


@pytest.mark.story("matches-of-former-acls")
async def test_matches_follow_the_rights_of_their_reader() -> None:
    service, reader = Service(), Reader("User:alice", "10.0.0.1")
    service.allow("u", revision=1)
    service.shard.beat("m1", **REGEX, reader=reader)
    assert await service.resolved() == {"[tu]": {"u"}}
    service.allow("t", revision=2)
    service.shard.sleep(REFRESH_S)
    service.shard.beat("m1", service.shard.member("m1").epoch, reader=reader)
    assert await service.resolved() == {"[tu]": {"t"}}


async def test_a_group_with_many_expressions_delays_no_other() -> None:
    service = Service()
    for n in range(300):
        service.image = with_topic(service.image, f"other{n}", 1, number=3 + n)
    for n in range(100):
        service.shard.beat(f"m{n}", topics=(), regex=f"t{{{n % 9 + 1}}}|{n}")
    service.shard.beat("other", group="h", **REGEX)
    assert len(await service.resolved()) == 100
    assert service.shard.consumers("h").resolved
    last = {group: place for place, group in enumerate(service.decided)}
    assert last["h"] < last["g"]
