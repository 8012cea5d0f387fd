"""Whatever a coordinator answers, in whatever order: a member never speaks as somebody that it is not any more."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.machines.membership import (
    NEVER,
    NO_GENERATION,
    Meaning,
    MemberIdentity,
    MemberSettings,
    Membership,
    MemberState,
)
from ottla_core.errors import ErrorCode

CODES = st.sampled_from(
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
)


class Member(RuleBasedStateMachine):
    """The coordinator gives a new generation at every join, and a new id to whoever comes without one."""

    @initialize()
    def begin(self) -> None:
        self.member = Membership(MemberSettings())
        self.now = 0.0
        self.ids = self.generations = 0
        self.former: list[MemberIdentity] = []

    @rule(seconds=st.floats(0.01, 5))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.member.on_poll(self.now)

    @rule()
    def news(self) -> None:
        self.member.rejoin("news")

    @precondition(lambda self: self.member.may_join(self.now))
    @rule()
    def joins(self) -> None:
        self.former.append(self.member.identity)
        self.member.begin_join()

    @precondition(lambda self: self.member.state is MemberState.JOINING)
    @rule()
    def is_joined(self) -> None:
        self.generations += 1
        self.ids += not self.member.member_id
        self.member.on_joined(self.generations, self.member.member_id or f"m{self.ids}", "range", "m1", 0.0)

    @precondition(lambda self: self.member.state is MemberState.SYNCING)
    @rule()
    def is_synced(self) -> None:
        self.member.on_synced(self.now)

    @precondition(lambda self: self.member.state in (MemberState.JOINING, MemberState.SYNCING))
    @rule(code=CODES)
    def is_refused(self, code: ErrorCode) -> None:
        self.member.on_join_failed(code, "", self.now)
        assert self.member.state is MemberState.UNJOINED
        assert self.member.join_reason

    @rule(code=CODES, late=st.booleans())
    def a_heartbeat_is_refused(self, code: ErrorCode, late: bool) -> None:
        before = self.member.identity
        self.member.on_heartbeat_failed(before.generation - late, code, "", self.now)
        assert not late or self.member.identity == before

    @rule(code=CODES, data=st.data())
    def a_commit_is_refused(self, code: ErrorCode, data: st.DataObject) -> None:
        before = self.member.identity
        who = data.draw(st.sampled_from([*self.former, before]))
        meaning = self.member.on_commit_failed(who, code, "")
        lost = meaning is Meaning.LOST and who.generation == before.generation and before.generation != NO_GENERATION
        assert self.member.identity in ((before, MemberIdentity()) if lost else (before,))

    @precondition(lambda self: self.member.poll_overdue_at < NEVER)
    @rule()
    def it_did_not_poll(self) -> None:
        assert self.member.generation != NO_GENERATION
        self.member.on_poll_overdue()

    @invariant()
    def it_speaks_only_as_who_it_is(self) -> None:
        member = self.member
        if member.lost:
            assert member.identity == MemberIdentity()
            assert member.state is MemberState.UNJOINED
            assert member.join_reason
        if member.state in (MemberState.SYNCING, MemberState.STABLE):
            assert member.member_id
            assert member.generation == self.generations
        assert (member.heartbeat_at < NEVER) == (member.state in (MemberState.SYNCING, MemberState.STABLE))
        assert member.may_join(self.now + 2) == (
            bool(member.join_reason) and member.state in (MemberState.UNJOINED, MemberState.STABLE)
        )


TestMember = Member.TestCase
TestMember.settings = settings(max_examples=100, stateful_step_count=40)
