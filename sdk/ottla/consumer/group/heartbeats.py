"""Sends a member's heartbeats, on a thread of its own: the user's thread may be busy with its records.

The thread decides nothing about partitions. It notes the responses, and the reader acts on them at its next step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock, RLock, Thread
from typing import Final

from ottla.client.condition import Condition, is_held
from ottla.client.group_departure import departure
from ottla.client.kafka.apis import HEARTBEAT
from ottla.client.kafka.exchange import Exchange
from ottla.consumer.group.coordinator import CoordinatorClient
from ottla.errors import OttlaError
from ottla.machines.membership import NEVER, Meaning, MemberIdentity, Membership, MemberState
from ottla_core.clock import Clock
from ottla_core.kafka.messages import HeartbeatRequest

logger = logging.getLogger("ottla.group")

_LEAVE_S: Final = 2.0

_TRY_S: Final = 5.0
"""Shorter than other requests' time: a heartbeat to a coordinator that hangs uses up the member's session."""


class Heartbeats:
    """`lock` guards the member; `on_change` wakes the reader. `error` is an error that no later heartbeat can clear.

    `waiting` is a re-entrant lock that the reader holds while it waits for records: a member whose reader waits is
    polling, so it is not overdue.

    `on_bug` gets an unforeseen error that has ended the thread; the next `start` starts another.
    """

    def __init__(
        self,
        member: Membership,
        coordinator: CoordinatorClient,
        lock: Condition,
        waiting: RLock,
        clock: Clock,
        on_change: Callable[[], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self.error: OttlaError | None = None
        self._member: Final = member
        self._coordinator: Final = coordinator
        self._lock: Final = lock
        self._waiting: Final = waiting
        self._clock: Final = clock
        self._on_change: Final = on_change
        self._on_bug: Final = on_bug
        self._stopped = False
        self._running: Final = Lock()

    def start(self, name: str) -> None:
        """Send heartbeats from now on, while the member is in the group; does nothing if that runs already."""
        if not self._running.locked():
            Thread(target=self._run, name=f"ottla-heartbeat-{name}", daemon=True).start()

    def stop(self) -> None:
        """Stop, without waiting for a heartbeat that is under way."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return  # an interrupt hid that another thread was started already
        try:
            self._send_heartbeats()
        except BaseException as bug:
            self._running.release()
            self._on_bug(bug)

    def _send_heartbeats(self) -> None:
        member = self._member
        looks_at = NEVER  # when to check whether a coordinator that does not answer still is the group's
        while True:
            with self._lock:
                if self._stopped:
                    return
                now = self._clock.monotonic()
                if is_held(self._waiting):
                    member.on_poll(now)
                waits = member.state in (MemberState.JOINING, MemberState.SYNCING)
                looks_at = min(looks_at, now + member.settings.heartbeat_interval_s) if waits else NEVER
                if now < min(member.heartbeat_at, member.poll_overdue_at, looks_at):
                    due_at = min(member.heartbeat_at, member.poll_overdue_at, looks_at)
                    self._lock.wait(min(due_at - now, member.settings.heartbeat_interval_s))
                    continue
                heartbeat_due, who = now >= member.heartbeat_at, member.identity
                reason = member.on_poll_overdue() if now >= member.poll_overdue_at else ""
            if reason:
                self._leave_overdue(who, reason)
            elif heartbeat_due:
                self._send_heartbeat(who)
            else:
                looks_at = NEVER
                self._check_coordinator()

    def _send_heartbeat(self, who: MemberIdentity) -> None:
        with self._lock:
            self._member.on_heartbeat_sent(self._clock.monotonic())
        asked = heartbeat(self._coordinator.group, who)
        try:
            self._coordinator.exchange(asked, timeout=min(_TRY_S, self._member.settings.session_timeout_s))
        except OttlaError as error:
            self._on_heartbeat_failed(who, error)
            return
        with self._lock:
            self._member.on_heartbeat()

    def _on_heartbeat_failed(self, who: MemberIdentity, error: OttlaError) -> None:
        with self._lock:
            if self._stopped:
                return
            known = bool(self._member.join_reason)
            meaning = self._member.on_heartbeat_failed(
                who.generation, error.code, error.message, self._clock.monotonic()
            )
            if meaning is Meaning.FATAL:
                self.error, self._stopped = error, True
        level = logging.DEBUG if known or meaning in (Meaning.AGAIN, Meaning.FIND) else logging.INFO
        logger.log(level, "group %s: %s: %s", self._coordinator.group, meaning.value, error)
        self._on_change()

    def _leave_overdue(self, who: MemberIdentity, reason: str) -> None:
        logger.warning(
            "group %s: this consumer is leaving the group: %s; poll more often, read fewer records per poll "
            "(max_poll_records) or raise max_poll_interval",
            self._coordinator.group,
            reason,
        )
        if who.instance_id is None:
            leave(self._coordinator, who, reason)
        self._on_change()

    def _check_coordinator(self) -> None:
        try:
            self._coordinator.leave_if_moved()
        except OttlaError as error:
            logger.debug("group %s: %s", self._coordinator.group, error)


def leave(coordinator: CoordinatorClient, who: MemberIdentity, reason: str) -> None:
    """Leave, so that the group does not wait until this member's session times out. Never raises."""
    try:
        coordinator.exchange(departure(coordinator.group, who, reason), timeout=_LEAVE_S)
    except OttlaError as error:
        logger.info("group %s: a member's leave request failed: %s", coordinator.group, error)


def heartbeat(group: str, who: MemberIdentity) -> Exchange[None]:
    """Return the exchange by which a member shows that it is alive. An error may say that it has to join again."""
    request = HeartbeatRequest(
        group_id=group, generation_id=who.generation, member_id=who.member_id, group_instance_id=who.instance_id
    )
    return Exchange(HEARTBEAT, lambda _: request, lambda _: None)
