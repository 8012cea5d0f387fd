"""Committed offsets: who may commit, and how long they are kept."""

from __future__ import annotations

from typing import Any

import pytest
from groups import WALL_MS, EveryTopic, Shard, code, id_of, subscription

from ottla_core.cluster.image import Topic
from ottla_core.coordination.shard import Entry, Marker, ShardDecision, TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines import shard as machine
from ottla_group_coordinator.machines.history import MOST_READ
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.offsets import decide_delete_group, decide_delete_offsets
from ottla_group_coordinator.machines.records import CommittedOffset, OffsetKey, encode_key, encode_offset
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.machines.states import GroupState

T0 = TopicPartition("t", 0)
DAY_S = 24 * 3600


@pytest.fixture
def shard() -> Shard:
    return Shard()


def committed(shard: Shard, partition: TopicPartition = T0) -> int | None:
    found = shard.machine.offsets("g").get(partition)
    return None if found is None else found.offset


@pytest.mark.rule(46)
def test_a_member_commits_in_its_generation(shard: Shard) -> None:
    leader, other = shard.stable(2)
    assert shard.commit(7, other, 1) == [None]
    assert committed(shard) == committed(shard.reloaded()) == 7
    assert shard.machine.offsets("g")[T0].committed_at_ms == WALL_MS + round(shard.at * 1000)
    assert code(shard.commit(9, other, 0)) == ErrorCode.ILLEGAL_GENERATION
    assert code(shard.commit(9, "nobody", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.commit(9)) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.leave(leader)
    shard.join(other, key="o")
    assert code(shard.commit(9, other, 1)) == ErrorCode.ILLEGAL_GENERATION
    assert committed(shard) == 7


@pytest.mark.rule(47)
def test_between_two_generations_a_commit_is_refused_and_before_it_is_taken(shard: Shard) -> None:
    leader, other = shard.stable(2)
    shard.join(key="new")
    assert shard.commit(3, other, 1) == [None]  # before it joins again, it may still say how far it came
    for member_id in (leader, other):
        shard.join(member_id, key=member_id)
    assert shard.group().state is GroupState.COMPLETING_REBALANCE
    assert code(shard.commit(4, other, 2)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert code(shard.commit(4, other, 1)) == ErrorCode.ILLEGAL_GENERATION


_STATES = ("no group", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
_TAKEN = "taken"
_OLD, _UNKNOWN = "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"
_COMMITS: dict[str, tuple[str, str, str, str, str]] = {
    # Who commits: the answer in each state, as Kafka 4's ClassicGroup.validateOffsetCommit gives it.
    "a member": (_OLD, _UNKNOWN, _TAKEN, "REBALANCE_IN_PROGRESS", _TAKEN),
    "a member in a transaction": (_OLD, _UNKNOWN, _TAKEN, _TAKEN, _TAKEN),
    "a member of an old generation": (_OLD, _UNKNOWN, _OLD, _OLD, _OLD),
    "a member of an old generation in a transaction": (_OLD, _UNKNOWN, _OLD, _OLD, _OLD),
    "a member without a generation": (_TAKEN, _TAKEN, _OLD, _OLD, _OLD),
    "a member without a generation in a transaction": (_TAKEN, _TAKEN, _OLD, _OLD, _OLD),
    "a former process": (_OLD, _UNKNOWN, "FENCED_INSTANCE_ID", "FENCED_INSTANCE_ID", "FENCED_INSTANCE_ID"),
    "a former process in a transaction": (
        _OLD,
        _UNKNOWN,
        "FENCED_INSTANCE_ID",
        "FENCED_INSTANCE_ID",
        "FENCED_INSTANCE_ID",
    ),
    "a stranger": (_OLD, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    "a stranger in a transaction": (_OLD, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    "nobody": (_TAKEN, _TAKEN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
    "nobody in a transaction": (_TAKEN, _TAKEN, _TAKEN, _TAKEN, _TAKEN),
}


@pytest.mark.rule(46, 47)
@pytest.mark.story("transaction-refused-while-a-rebalance-completes")
@pytest.mark.parametrize("state", _STATES)
@pytest.mark.parametrize("who", _COMMITS)
def test_who_may_commit_in_which_state_of_the_group(shard: Shard, state: str, who: str) -> None:
    member = _group_in(shard, state)
    generation = shard.group().generation
    callers: dict[str, dict[str, Any]] = {
        "a member": {"member_id": member, "instance_id": "i0", "generation": generation},
        "a member of an old generation": {"member_id": member, "generation": max(0, generation - 1)},
        "a member without a generation": {"member_id": member},
        "a former process": {"member_id": "former", "instance_id": "i0", "generation": generation},
        "a stranger": {"member_id": "stranger", "generation": generation},
        "nobody": {},
    }
    caller, in_transaction, _ = who.partition(" in a transaction")
    answer = shard.commit(7, **callers[caller], in_transaction=bool(in_transaction))
    expected = _COMMITS[who][_STATES.index(state)]
    assert (_TAKEN if answer == [None] else ErrorCode(code(answer)).name) == expected


def _group_in(shard: Shard, state: str) -> str:
    """Bring the group into the state, and return the id of a static member of it, or of one that has left."""
    if state == "no group":
        return "member"
    member, other = shard.stable(2, static=True)
    if state == "Empty":
        shard.leave(member, other)
    if state in ("PreparingRebalance", "CompletingRebalance"):
        shard.join(key="new")
    if state == "CompletingRebalance":
        for number, member_id in enumerate((member, other)):
            shard.join(member_id, key=member_id, instance_id=f"i{number}")
    assert shard.group().state is GroupState(state)
    return member


@pytest.mark.rule(46)
def test_nobody_commits_only_where_nobody_is(shard: Shard) -> None:
    assert shard.commit(3) == [None]
    assert committed(shard.reloaded()) == 3
    assert code(shard.commit(3, "somebody", 4)) == ErrorCode.ILLEGAL_GENERATION
    leader, *_ = shard.stable(1)
    assert code(shard.commit(4)) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.leave(leader)
    assert shard.commit(5) == [None]


@pytest.mark.rule(46)
def test_in_a_transaction_members_are_checked_where_one_is_named(shard: Shard) -> None:
    """Producers before KIP-447 name none."""
    leader, *_ = shard.stable(1)
    assert shard.commit(4, in_transaction=True) == [None]
    assert committed(shard) == 4
    for who, code_ in (
        ({"member_id": "another", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "another"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": leader, "generation": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert code(shard.commit(5, **who, in_transaction=True)) == code_, who


@pytest.mark.rule(46)
def test_an_instance_that_chooses_its_partitions_itself_commits(shard: Shard) -> None:
    assert shard.commit(3, instance_id="i") == [None]
    leader, *_ = shard.stable(1)
    shard.leave(leader)
    assert shard.commit(4, instance_id="i") == [None]
    assert shard.commit(5, "former") == [None]
    shard.join(key="new")
    assert code(shard.commit(6, instance_id="i")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(shard.commit(6)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_keeps_the_session(shard: Shard) -> None:
    leader, *_ = shard.stable(1)
    for n in range(4):
        shard.sleep(5)
        assert shard.commit(n, leader, 1) == [None]
    shard.sleep(10)
    assert not shard.group().members


def test_metadata_has_a_largest_size(shard: Shard) -> None:
    (refused,) = shard.commit(1, metadata="x" * 4_097)
    assert code(refused) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert committed(shard) is None
    assert shard.commit(1, metadata="x" * 4_096) == [None]


@pytest.mark.feature(77)
def test_the_newest_commit_of_each_partition_is_what_a_load_finds(shard: Shard) -> None:
    for offset in (3, 8, 5):
        shard.commit(offset)
    shard.commit(1, topic="u")
    assert committed(shard.reloaded()) == 5
    assert committed(shard.reloaded(), TopicPartition("u", 0)) == 1


# ---- giving up ------------------------------------------------------------------------------------------------------


def test_offsets_that_living_members_read_stay(shard: Shard) -> None:
    shard.commit(1)
    shard.commit(1, topic="not read")
    shard.stable(1)
    wanted = [T0, TopicPartition("not read", 0), TopicPartition("never", 3)]
    outcomes = shard.take(decide_delete_offsets(shard.group(), shard.machine.partitions("g"), wanted))
    assert [o if o is None else o.code for o in outcomes] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, None, None]
    assert set(shard.machine.offsets("g")) == {T0}


@pytest.mark.story("subscriptions-are-read-however-long")
def test_subscriptions_that_are_too_long_to_be_read_keep_all_offsets(shard: Shard) -> None:
    shard.commit(1)
    shard.stable(3, protocols={"range": subscription(*(f"t{n}" for n in range(MOST_READ // 2)))})
    assert shard.group().subscribed_topics() is None
    outcomes = shard.take(decide_delete_offsets(shard.group(), shard.machine.partitions("g"), [T0]))
    assert [o.code for o in outcomes] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_a_group_is_deleted_with_its_offsets_when_nobody_is_in_it(shard: Shard) -> None:
    leader, *_ = shard.stable(1)
    shard.commit(1, leader, 1)
    with pytest.raises(OttlaError) as refused:
        decide_delete_group(shard.group(), shard.machine.partitions("g"))
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    shard.leave(leader)
    shard.take(decide_delete_group(shard.group(), shard.machine.partitions("g")))
    for there in (shard, shard.reloaded()):
        with pytest.raises(OttlaError):
            there.machine.group("g")


def test_an_id_that_was_given_out_does_not_keep_a_group(shard: Shard) -> None:
    shard.commit(3)
    shard.join(member_id_required=True)
    shard.take(decide_delete_group(shard.group(), shard.machine.partitions("g")))
    assert list(shard.machine.groups()) == []


def test_a_group_whose_members_are_all_away_in_a_rebalance_is_not_deleted(shard: Shard) -> None:
    shard.join(key="a")
    shard.leave(*shard.group().members)
    with pytest.raises(OttlaError) as refused:
        decide_delete_group(shard.group(), shard.machine.partitions("g"))
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    shard.sleep(3)
    shard.take(decide_delete_group(shard.group(), shard.machine.partitions("g")))


@pytest.mark.rule(50)
def test_offsets_are_given_up_a_week_after_the_last_member_left() -> None:
    shard = Shard(GroupSettings(max_session_timeout_ms=10**9))
    leader, *_ = shard.stable(1, session_timeout_ms=10**9)
    shard.commit(4, leader, 1)
    shard.sleep(8 * DAY_S)
    assert committed(shard) == 4  # its reader lives
    shard.leave(leader)
    shard.sleep(6.9 * DAY_S)
    assert committed(shard) == 4
    shard.sleep(0.2 * DAY_S)
    assert committed(shard) is None
    assert list(shard.machine.groups()) == []
    assert list(shard.reloaded().machine.groups()) == []


@pytest.mark.rule(50)
def test_offsets_of_a_topic_that_is_read_no_more_are_given_up() -> None:
    shard = Shard(GroupSettings(max_session_timeout_ms=10**9))
    shard.commit(1, topic="old")
    shard.commit(1, topic="t")
    shard.stable(1, session_timeout_ms=10**9, protocols={"range": subscription("t")})
    shard.sleep(8 * DAY_S)
    assert set(shard.machine.offsets("g")) == {T0}


@pytest.mark.rule(50)
def test_however_many_offsets_are_over_each_look_writes_what_a_batch_holds() -> None:
    shard = Shard()
    topics = [f"{n:04}" + "x" * 200 for n in range(3_000)]
    for n, topic in enumerate(topics):
        shard.commit(n, topic=topic)
    largest = shard.largest_bytes
    shard.sleep(7 * DAY_S + 5)  # a look, and what it leaves for the next moments
    assert list(shard.machine.groups()) == []
    assert largest < shard.largest_bytes < 300_000


@pytest.mark.rule(50)
def test_many_groups_are_looked_at_some_at_a_time() -> None:
    shard = Shard()
    shard.commit(1, group="z")
    shard.sleep(7 * DAY_S - 60)
    for n in range(2_500):
        shard.commit(1, group=f"g{n}")
    shard.sleep(65)
    assert "z" not in {group.group_id for group in shard.machine.groups()}


@pytest.mark.story("expiry-listed-all-groups-again")
def test_a_look_lists_the_groups_once(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(2_500):
        shard.commit(1, group=f"g{n}")
    listed: list[int] = []
    names = GroupShard._names

    def counted(machine: GroupShard) -> dict[str, None]:
        found = names(machine)
        listed.append(len(found))
        return found

    monkeypatch.setattr(GroupShard, "_names", counted)
    shard.sleep(shard.settings.retention_check_s + 10)
    assert listed == [2_500]
    shard.sleep(shard.settings.retention_check_s)
    assert listed == [2_500, 2_500]


@pytest.mark.rule(50)
def test_a_group_that_goes_during_a_look_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LOOKED_AT_ONCE", 1)
    shard = Shard(GroupSettings(retention_check_s=10.0))
    groups = [f"g{n}" for n in range(4)]
    for group in groups:
        shard.commit(1, group=group)
    shard.sleep(10.0)
    left = shard.machine._to_look_at[:]
    assert 0 < len(left) < len(groups)
    for group in left:
        shard.take(decide_delete_group(shard.group(group), shard.machine.partitions(group)))
    shard.sleep(5.0)
    assert not shard.machine._to_look_at
    assert {group.group_id for group in shard.machine.groups()} == {*groups} - {*left}


def test_what_is_only_memory_is_forgotten(shard: Shard) -> None:
    shard.join(member_id_required=True)
    assert [g.group_id for g in shard.machine.groups()] == ["g"]
    shard.sleep(1_300)
    assert list(shard.machine.groups()) == []
    assert shard.log == []


# ---- topics ---------------------------------------------------------------------------------------------------------


def remade(*names: str) -> EveryTopic:
    """They have been deleted and made anew."""
    topics = EveryTopic()
    topics.update({name: Topic(name, id_of(name, life=1), 1) for name in names})
    return topics


@pytest.mark.story("offsets-of-a-deleted-topic")
def test_nothing_is_committed_where_no_topic_is(shard: Shard) -> None:
    leader, *_ = shard.stable(1)
    shard.topics.gone = {"gone"}
    for place in ({"topic": "gone"}, {"partition": 10}, {"partition": -1}):
        (refused,) = shard.commit(1, leader, 1, **place)
        assert code(refused) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert shard.machine.offsets("g") == {}
    assert shard.commit(1, leader, 1, partition=9) == [None]


@pytest.mark.story("offsets-of-a-deleted-topic")
def test_a_commit_may_say_in_which_topic_of_that_name(shard: Shard) -> None:
    assert shard.commit(7, topic_id=id_of("t")) == [None]
    shard.topics = remade("t")
    (refused,) = shard.commit(8, topic_id=id_of("t"))
    assert code(refused) == ErrorCode.UNKNOWN_TOPIC_ID
    assert committed(shard) == 7
    assert shard.commit(3, topic_id=id_of("t", life=1)) == [None]
    assert shard.machine.offsets("g")[T0].topic_id == id_of("t", life=1)


@pytest.mark.story("offsets-of-a-deleted-topic-at-takeover")
def test_what_was_committed_in_a_topic_that_is_gone_goes_however_late_that_is_heard() -> None:
    shard = Shard(GroupSettings(max_session_timeout_ms=10**9))
    for topic in ("t", "gone", "made anew"):
        shard.commit(2, topic=topic)
    shard.stable(1, session_timeout_ms=10**9, protocols={"range": subscription("t", "gone", "made anew")})
    there = shard.reloaded()
    there.sleep(8 * DAY_S)
    there.topics = remade("made anew")
    there.topics.gone = {"gone"}
    (member_id,) = there.group().members
    there.commit(3, member_id, there.group().generation, topic="made anew")
    assert there.take(there.machine.forget_topics(there.topics, None)) is True
    assert {p.topic for p in there.machine.offsets("g")} == {"t", "made anew"}
    assert there.machine.offsets("g")[TopicPartition("made anew", 0)].offset == 3
    assert there.reloaded().machine.offsets("g") == there.machine.offsets("g")


def test_what_an_older_release_committed_goes_with_the_topics_name(shard: Shard) -> None:
    for topic in ("t", "gone", "made anew"):
        shard.take(decided(put_plain(1, topic=topic, topic_id=None)))
    shard.topics = remade("made anew")
    shard.topics.gone = {"gone"}
    assert shard.take(shard.machine.forget_topics(shard.topics, {"made anew", "gone"})) is True
    assert {p.topic for p in shard.machine.offsets("g")} == {"t"}


def test_however_much_was_committed_in_it_is_taken_out_some_at_a_time(shard: Shard) -> None:
    for n in range(5_000):
        shard.commit(n, topic="gone" * 50, group=f"g{n}")
    shard.topics.gone = {"gone" * 50}
    assert shard.take(shard.machine.forget_topics(shard.topics, None)) is False
    while not shard.take(shard.machine.forget_topics(shard.topics, None)):
        pass
    assert list(shard.machine.groups()) == []
    assert shard.largest_bytes < 300_000


@pytest.mark.story("each-deletion-scans-all-offsets")
def test_the_end_of_a_topic_looks_at_the_groups_that_have_committed_in_it(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("t", "u"):
        for n in range(20):
            shard.commit(n, topic=topic, group=f"{topic}{n % 5}", partition=n // 5)
    shard.topics.gone = {"u"}
    looked_at: list[str] = []
    monkeypatch.setattr(
        "ottla_group_coordinator.machines.shard.is_of_gone",
        lambda partition, offset, topics: looked_at.append(partition.topic) or topics.get(partition.topic) is None,
    )
    assert shard.take(shard.machine.forget_topics(shard.topics, {"v"})) is True
    assert looked_at == []
    assert shard.take(shard.machine.forget_topics(shard.topics, {"u"})) is True
    assert set(looked_at) == {"u"}
    assert {group.group_id for group in shard.machine.groups()} == {f"t{n}" for n in range(5)}
    shard.take(shard.machine.forget_topics(EveryTopic("t"), {"t"}))
    assert list(shard.machine.groups()) == []
    assert shard.machine._groups_in == {}


# ---- transactions ---------------------------------------------------------------------------------------------------

ONE, OTHER = TransactionProducer(70, 3), TransactionProducer(71, 0)


def put_plain(
    offset: int, producer: TransactionProducer | None = None, *, topic: str = "t", topic_id: Any = b"t-0-"
) -> Entry:
    """As it lies in the log; with a producer, in a transactional batch."""
    told = CommittedOffset(offset, committed_at_ms=WALL_MS, topic_id=topic_id and id_of(topic))
    return Entry(encode_key(OffsetKey("g", TopicPartition(topic, 0))), encode_offset(told), producer)


def take_out() -> Entry:
    return Entry(encode_key(OffsetKey("g", T0)), None)


def ended(producer: TransactionProducer, *, committed: bool) -> Marker:
    return Marker(producer._replace(epoch=producer.epoch + 1), committed, 0)


def decided(*records: Any) -> ShardDecision[None]:
    return ShardDecision(None, records)


COMMITTED, ABORTED = ended(ONE, committed=True), ended(ONE, committed=False)


@pytest.mark.rule(50)
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([put_plain(5, ONE)], None),
        ([put_plain(5, ONE), COMMITTED], 5),
        ([put_plain(5, ONE), ABORTED], None),
        ([put_plain(2), put_plain(5, ONE)], 2),
        ([put_plain(2), put_plain(5, ONE), ABORTED], 2),
        ([put_plain(5, ONE), put_plain(6, ONE), COMMITTED], 6),
        ([put_plain(5, ONE), ended(OTHER, committed=True)], None),
        ([put_plain(5, ONE), COMMITTED, put_plain(6, ONE), ABORTED], 5),
        ([put_plain(5, ONE), put_plain(9), COMMITTED], 9),  # what was committed since is the newer one
        ([put_plain(5, ONE), put_plain(7, OTHER), ended(OTHER, committed=True), COMMITTED], 7),
        ([put_plain(5, OTHER), put_plain(7, ONE), ended(OTHER, committed=True), COMMITTED], 7),
        ([put_plain(5, ONE), take_out(), COMMITTED], None),
        ([take_out(), put_plain(5, ONE), COMMITTED], 5),
    ],
)
def test_an_offset_in_a_transaction_is_nobodys_until_its_marker(log: list[Any], expected: int | None) -> None:
    shard = Shard(log=log)
    assert committed(shard) == expected
    last_of_one = max(n for n, record in enumerate(log) if isinstance(record, Entry) and record.producer is not None)
    is_over = any(isinstance(r, Marker) and r.producer.id == ONE.id for r in log[last_of_one:]) or take_out() in log[1:]
    assert set(shard.machine.pending.partitions("g")) == (set() if is_over else {T0})
    assert ("g" in [group.group_id for group in shard.machine.groups()]) == (expected is not None or not is_over)


@pytest.mark.rule(50)
def test_what_is_pending_keeps_offsets_and_group_from_their_end() -> None:
    shard = Shard(log=[put_plain(2), put_plain(5, ONE)])
    shard.sleep(30 * DAY_S)
    assert committed(shard) == 2
    shard.apply(COMMITTED)
    assert committed(shard) == 5
    shard.sleep(8 * DAY_S)
    assert list(shard.machine.groups()) == []


def test_what_is_deleted_does_not_come_back_with_a_marker() -> None:
    def told(decide: Any) -> Shard:
        shard = Shard(log=[put_plain(5, ONE)])
        shard.take(decide(shard))
        shard.apply(COMMITTED)
        return shard

    for decide in (
        lambda shard: decide_delete_group(shard.group(), shard.machine.partitions("g")),
        lambda shard: decide_delete_offsets(shard.group(), shard.machine.partitions("g"), [T0]),
        lambda shard: shard.machine.forget_topics(EveryTopic("t"), None),
    ):
        assert list(told(decide).machine.groups()) == []


@pytest.mark.story("group-skips-what-is-new-in-a-partition")
def test_a_first_commit_leaves_partitions_alone_in_which_something_is_committed() -> None:
    shard = Shard()
    shard.commit(7)
    there = shard.machine.committed_in("g", shard.topics)
    shard.commit(3, but=there)
    shard.commit(4, partition=1, but=there)
    assert {p.partition: o.offset for p, o in shard.machine.offsets("g").items()} == {0: 7, 1: 4}
