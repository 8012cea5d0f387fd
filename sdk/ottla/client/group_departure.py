"""The exchange by which a member leaves its group, or an operator removes it (LeaveGroup)."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import LEAVE_GROUP
from ottla.client.kafka.exchange import Exchange, Terms, raise_failed
from ottla.machines.membership import MemberIdentity
from ottla_core.kafka.messages import LeaveGroupRequest, LeaveGroupResponse

_REASON_FROM: Final = 5
"""From this version on a member says why it leaves (KIP-800)."""


def departure(group: str, member: MemberIdentity, reason: str) -> Exchange[None]:
    """Return the exchange by which a member leaves."""

    def build(terms: Terms) -> LeaveGroupRequest:
        leaver = LeaveGroupRequest.MemberIdentity(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            reason=reason if terms.version >= _REASON_FROM else None,
        )
        return LeaveGroupRequest(group_id=group, members=[leaver])

    def read(response: LeaveGroupResponse) -> None:
        (left,) = response.members
        raise_failed(left)

    return Exchange(LEAVE_GROUP, build, read)
