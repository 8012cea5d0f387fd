"""Commits offsets, one round after the other, so that an earlier commit never overwrites a later one.

Waiting commits are sent together. A commit that the caller waits for is retried until it succeeds or can't; any other
is tried once, because a later commit is worth more than a repeated one. A thread sends the rounds, and lives as long as
there are any; callbacks run in the user's thread.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Thread
from typing import Final

from ottla.client import committed_offsets
from ottla.client.cluster import UNKNOWN_TOPIC_GRACE_S, ClusterClient
from ottla.client.committed_offsets import Failures
from ottla.client.condition import Condition
from ottla.client.kafka.exchange import Exchange
from ottla.client.offsets import OffsetAndMetadata, Offsets
from ottla.consumer.group.commit_round import Commit, CommitRound, OnCommitted
from ottla.consumer.group.coordinator import TRY_S, CoordinatorClient
from ottla.errors import ErrorCode, OttlaError, error_from_code, from_core
from ottla.machines.failures import not_committed
from ottla.machines.membership import NO_GENERATION, Meaning, MemberIdentity, Membership, meaning_of
from ottla_core.model import TopicId, TopicPartition
from ottla_core.rpc.parts import in_parts
from ottla_core.rpc.retry import Backoff

logger = logging.getLogger("ottla.group")

_RETRYING: Final = (Meaning.FIND, Meaning.AGAIN)

_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Codes for a topic that is deleted or recreated, or that the coordinator does not know yet."""
_MISSING: Final = 3
"""A topic counts as deleted after so many responses in a row that lack it."""


class Commits:
    """The commits of one member. `lock` guards the member and this object's state; when a commit is done it is
    signalled, and then `on_done` runs."""

    def __init__(
        self,
        member: Membership,
        coordinator: CoordinatorClient,
        cluster: ClusterClient,
        lock: Condition,
        on_done: Callable[[], None],
        topic_ids: Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, TopicId]],
    ) -> None:
        self.known: Final[Offsets] = {}  # the group's committed offsets, as far as known
        self.count = 0
        self._member: Final = member
        self._coordinator: Final = coordinator
        self._cluster: Final = cluster
        self._lock: Final = lock
        self._on_done: Final = on_done
        self._topic_ids: Final = topic_ids
        self._waiting: deque[Commit] = deque()
        self._to_call: deque[Commit] = deque()
        self._running = False

    def begin(self, offsets: Offsets, *, retries: bool = False, callback: OnCommitted | None = None) -> Commit:
        """Commit after all earlier commits, with the current identity. The caller then waits for one that `retries`."""
        topic_ids = self._topic_ids(offsets)
        with self._lock:
            commit = Commit(self._member.commits_as, offsets, topic_ids, retries, callback)
            if not self._waiting or not self._waiting[-1].absorb(commit):
                self._waiting.append(commit)
        self._ensure_thread()
        return commit

    def wait(self, commit: Commit, timeout: float, check: Callable[[], None]) -> None:
        """Wait until it is done, or for `timeout` seconds. `check` may raise to end the wait. Raises its error."""
        deadline_at = self._cluster.clock.monotonic() + timeout
        try:
            with self._lock:
                while not commit.done:
                    check()
                    left = deadline_at - self._cluster.clock.monotonic()
                    if left <= 0:
                        raise _timed_out(commit, timeout)
                    self._lock.wait(left)
        finally:
            commit.retries = False
        if commit.error is not None:
            raise commit.error

    def run_callbacks(self) -> None:
        """Call back for finished commits, in order, in this thread."""
        while True:
            with self._lock:
                if not self._to_call:
                    return
                commit = self._to_call.popleft()
            assert commit.callback is not None
            commit.callback(commit.offsets, commit.error)

    def drain(self, timeout: float) -> None:
        """Wait until no commit is under way, for `timeout` seconds at most."""
        self._ensure_thread()
        with self._lock:
            self._lock.wait_for(lambda: not self._waiting and not self._running, timeout)

    def fetch(
        self,
        partitions: Iterable[TopicPartition],
        timeout: float,
        topic_ids: dict[TopicPartition, TopicId] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions, without those that have none; retry for `timeout` seconds.

        The ids of the topics that the offsets belong to are added to `topic_ids`, if the coordinator knows them.
        """
        requested = list(partitions)
        found: Offsets = {}
        deadline_at = self._cluster.clock.monotonic() + timeout
        for part in in_parts(requested) if requested else ():
            for partition, committed in self._fetch_offsets(part, deadline_at).items():
                found[partition] = committed._replace(topic_id=None)
                if topic_ids is not None and committed.topic_id is not None:
                    topic_ids[partition] = TopicId(committed.topic_id)
        return found

    def commit_first(self, offsets: Offsets) -> None:
        """Commit the offsets of those partitions in which the group has committed nothing yet.

        The commit is tried once, with the current member identity. A failure is not raised: `fetch` shows what is
        committed. Kafka's coordinators can't compare and commit in one step. With them this method itself calls `fetch`
        before it commits, and raises its errors. Another member may commit between the two steps.
        """
        with self._lock:
            who = self._member.commits_as
        first = partial(committed_offsets.commit_first, self._coordinator.group, who)
        failures = self._send(who, offsets, first)
        if any(error.code == ErrorCode.UNSUPPORTED_VERSION for error in failures.values()):
            committed = self.fetch(offsets, TRY_S)
            self._send(who, {partition: offset for partition, offset in offsets.items() if partition not in committed})

    def _fetch_offsets(self, partitions: Sequence[TopicPartition], deadline_at: float) -> Offsets:
        backoff, is_unknown = Backoff(), False
        while True:
            try:
                if is_unknown:
                    # A request has the topic ids that this client knows. So a topic was recreated, or the
                    # coordinator does not know a new one yet.
                    self._cluster.fetch_metadata(dict.fromkeys(p.topic for p in partitions), timeout=TRY_S)
                names = self._cluster.names
                asked = committed_offsets.fetch(self._coordinator.group, partitions, names, require_stable=True)
                return self._coordinator.exchange(asked)
            except OttlaError as error:
                pause = backoff.next()
                over = self._cluster.clock.monotonic() + pause >= deadline_at
                is_unknown = error.code == ErrorCode.UNKNOWN_TOPIC_ID
                if over or (meaning_of(error.code) not in _RETRYING and not is_unknown):
                    raise
            self._cluster.wait(pause)

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _ensure_thread(self) -> None:
        """Start the thread if none runs: the caller that began a commit may have been interrupted before that."""
        if self._waiting and not self._running:
            Thread(target=self._run, name=f"ottla-commit-{self._coordinator.group}", daemon=True).start()

    def _run(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    self._lock.notify_all()
                    return
                commits = self._take()
            try:
                self._run_round(CommitRound(commits))
            except Exception as unforeseen:  # it concerns only these commits; others come after them
                logger.exception("group %s: a commit failed", self._coordinator.group)
                error = OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the commit failed: {unforeseen!r}")
                self._end((commit, error) for commit in commits if not commit.done)

    def _take(self) -> list[Commit]:
        """Take the next commits to send: the oldest waiting one, and those after it with the same member identity."""
        commits = [self._waiting.popleft()]
        while self._waiting and self._waiting[0].who == commits[0].who:
            commits.append(self._waiting.popleft())
        return commits

    def _end(self, outcomes: Iterable[tuple[Commit, OttlaError | None]]) -> None:
        with self._lock:
            for commit, error in outcomes:
                commit.done, commit.error = True, error
                if error is None:
                    self.count += 1
                    self.known.update(commit.offsets)
                if commit.callback is not None:
                    self._to_call.append(commit)
            self._lock.notify_all()
        self._on_done()

    def _run_round(self, sent: CommitRound) -> None:
        """Send the round until each of its commits has an outcome."""
        backoff, gone_at = Backoff(), self._cluster.clock.monotonic() + UNKNOWN_TOPIC_GRACE_S
        missing: Counter[TopicPartition] = Counter()
        while True:
            failures = self._send(sent.who, sent.left)
            errors = {error.code: error for error in failures.values()}  # thousands of partitions may share one
            final = {
                code
                for code, error in errors.items()
                if not self._is_worth_another(sent.who, error) and code not in _GONE
            }
            perhaps = {p: sent.left[p] for p, error in failures.items() if error.code in _GONE}
            gone = set(perhaps)
            if gone and self._cluster.clock.monotonic() < gone_at and any(commit.retries for commit in sent.pending):
                gone = self._gone(perhaps, missing)

            def is_over(commit: Commit, error: OttlaError) -> bool:
                return error.code in final or not commit.retries or not gone.isdisjoint(commit.in_topics)  # noqa: B023

            self._end((commit, error and self._failure(error)) for commit, error in sent.settle(failures, is_over))
            if not sent.pending:
                return
            try:
                self._cluster.wait(backoff.next())
            except OttlaError as closed:
                self._end((commit, closed) for commit in sent.pending)
                return

    def _gone(self, offsets: Offsets, missing: Counter[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions whose topic is another one now, or that several responses of brokers in a row lack.

        `missing` counts these responses. A coordinator may lag behind the brokers, and then a repeated commit succeeds.
        One of the brokers may lag as well.
        """
        try:
            view = self._cluster.fetch_metadata(dict.fromkeys(p.topic for p in offsets), timeout=TRY_S)
        except OttlaError:
            return set()
        gone = set()
        for partition, committed in offsets.items():
            if view.exists(partition):
                missing[partition] = 0
                if committed.topic_id not in (None, b"", view.topics[partition.topic].id):
                    gone.add(partition)
            elif view.unknown([partition.topic]):
                missing[partition] += 1
                if missing[partition] >= _MISSING:
                    gone.add(partition)
        return gone

    def _is_worth_another(self, who: MemberIdentity, error: OttlaError) -> bool:
        with self._lock:
            return self._member.on_commit_failed(who, error.code, error.message) in _RETRYING

    def _failure(self, error: OttlaError) -> OttlaError:
        if meaning_of(error.code) is Meaning.LOST:
            return not_committed(self._coordinator.group, error, self._member.left_behind)
        return from_core(error)

    def _send(
        self, who: MemberIdentity, offsets: Offsets, commit: Callable[[Offsets], Exchange[Failures]] | None = None
    ) -> Failures:
        """Return the errors of the partitions whose offsets were not committed. `commit` returns the exchange for a
        part of the offsets; by default, it is a usual commit."""
        if who.generation == NO_GENERATION:
            error = OttlaError(ErrorCode.UNKNOWN_MEMBER_ID, "the consumer is not in the group at the moment")
            return dict.fromkeys(offsets, error)
        group, names = self._coordinator.group, self._cluster.names
        failures: Failures = {}
        unsent = dict.fromkeys(offsets)
        try:
            for part in committed_offsets.in_parts(group, offsets) if offsets else ():
                asked = committed_offsets.commit(group, who, part, names) if commit is None else commit(part)
                failed = self._coordinator.exchange(asked)
                failures |= failed
                for partition in part:
                    del unsent[partition]
        except OttlaError as error:
            failures |= dict.fromkeys(unsent, error)
        return failures


def _timed_out(commit: Commit, timeout: float) -> OttlaError:
    last, answer = commit.last_failure, commit.last_answer
    told = f"; the last attempt failed with: {last}" if last else ""
    if answer is not None and answer is not last:
        told += f"; before, the coordinator answered: {answer}"
    return error_from_code(ErrorCode.REQUEST_TIMED_OUT, f"the offsets were not committed within {timeout:g} s{told}")
