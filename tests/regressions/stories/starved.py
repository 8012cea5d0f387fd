"""Too little processor time: everything is slow, and nothing is lost or given up because of it."""

from __future__ import annotations

import math

from tests.regressions.injection import altered, constant, instead_of, skipped
from tests.regressions.story import Story

_COORDINATION = "ottla_core.coordination"
_OWNER = f"{_COORDINATION}.owner:Owner"
_SHARD = f"{_COORDINATION}.held_shard"
_SESSION = "ottla_core.cluster.session:LeaseSession"


def _given_up_when_late(original, self, now):
    from ottla_core.coordination.phases import OwnerEvent

    if self._round is not None and now.at >= self._began_at + self.limits.append_s:
        self._leave(OwnerEvent.DIVERGED, "the log could not be reached in time")


def _nothing_is_proved(original, self, gap_s):
    self._proved_until = -math.inf


def _asked_soon(original, self, now):
    failures, self._failures = self._failures, 0
    original(self, now)
    self._failures = failures + 1


def _asked_for_ever(original, self, result, now):
    error, is_unknown = getattr(result, "error", None), type(result).__name__ == "Unknown"
    if error is not None and not error.retriable and (self._doubtful or is_unknown):
        self._retry(result, now, doubtful=is_unknown)
    else:
        original(self, result, now)


def _left_with_its_timer(original, self, effect):
    wake = self._wake
    if type(effect).__name__ == "Leave":
        self._wake = None
    original(self, effect)
    self._wake = wake if self._wake is None else self._wake


async def _waits_for_the_answer(original, self, lease):
    keep_alive_s, self._keep_alive_s = self._keep_alive_s, None
    try:
        return await original(self, lease)
    finally:
        self._keep_alive_s = keep_alive_s


async def _registered_whatever_happened(original, self, lease):
    await original(self, lease)
    self._registered = not self._again


def _answer_not_taken(original, self, lease, renewal):
    if lease == self._lease:
        original(self, lease, renewal)
    else:
        self._renewals.pop(renewal, None)


def _by_the_time_of_its_timer(original, self, at):
    if self._timer is not None and not hasattr(self._timer, "when"):
        raise LookupError("a handle of uvloop has no time")
    original(self, at)


def _ended_with_all_others(original, self, *args):
    from ottla_core.rpc.streams import EndStreamError

    raise EndStreamError("internal error")


async def _unless_it_opens(original, self):
    self._channel()
    await original(self)


async def _with_its_traceback(original, self, timeout):
    try:
        await original(self, timeout)
    except Exception as error:
        raise (error.__context__ or error) from None


STORIES = (
    Story(
        "alarm-asks-a-timer-for-its-time",
        "A stream between services ended with all its calls, because uvloop's handle of a due timer tells no time",
        instead_of("ottla_core.rpc.alarm:Alarm.set", _by_the_time_of_its_timer),
    ),
    Story(
        "bad-response-ends-the-calls-of-others",
        "One response that could not be encoded ended a stream between services, and every other call on it",
        instead_of("ottla_core.rpc.served_calls:_ServedCalls._failed_by_bug", _ended_with_all_others),
        instead_of("ottla_core.rpc.streams:_ServedStream._failed_by_bug", _ended_with_all_others),
    ),
    Story(
        "stream-that-never-opened-is-never-over",
        "A stream between services that could not be opened was taken for an open one, and no later call was sent",
        instead_of("ottla_core.rpc.call_stream:CallStream._run", _unless_it_opens),
    ),
    Story(
        "late-log-takes-the-shard-away",
        "An append that was not answered within 2 s cost its coordinator the shard and its state: 59 loads",
        instead_of(f"{_OWNER}._reject_late", _given_up_when_late),
    ),
    Story(
        "gap-distrusts-every-proof",
        "A gap of a second in a starved process made all its shards ask for a new proof, so no load ever ended",
        instead_of(f"{_OWNER}.on_gap", _nothing_is_proved),
    ),
    Story(
        "all-shards-load-at-once",
        "Fifty shards were loaded at the same time, and none of them made progress",
        skipped(f"{_SHARD}:HeldShard.is_loading", False),
    ),
    Story(
        "stuck-load-keeps-others-waiting",
        "Shards whose logs have no leader took the places of those that could be loaded",
        skipped(f"{_OWNER}.is_stuck", False),
    ),
    Story(
        "tired-log-is-asked-ever-as-often",
        "All shards asked a log that was late again at constantly short intervals",
        instead_of(f"{_OWNER}._ask_later", _asked_soon),
    ),
    Story(
        "new-leader-is-asked-late",
        "A shard asked the new leader of its partition only once its pause was over",
        instead_of(f"{_OWNER}.on_leader", lambda original, self, now: self._effects()),
    ),
    Story(
        "members-pay-for-a-late-log",
        "Members whose heartbeats were refused while the log was late were evicted when it came back",
        skipped(f"{_COORDINATION}.timers:Timers.shift"),
    ),
    Story(
        "refused-for-good-is-asked-for-ever",
        "A batch that the log will never take, and whose first sending had an unknown result, was sent for ever",
        instead_of(f"{_OWNER}._on_round_result", _asked_for_ever),
    ),
    Story(
        "left-shard-is-kept-by-its-timer",
        "A shard that was given to another coordinator stayed in memory, with its groups, until its next timer",
        instead_of(f"{_SHARD}:HeldShard._carry_out", _left_with_its_timer),
    ),
    Story(
        "refusal-is-logged-as-a-bug",
        "A refused heartbeat that nobody waited for any more was logged as an exception that was never retrieved",
        instead_of(f"{_SHARD}:reject", lambda original, token, error: token.set_exception(error)),
    ),
    Story(
        "renewal-waits-for-the-last-answer",
        "A starved broker renewed its lease only once the last renewal was answered, and lost it",
        instead_of(f"{_SESSION}._renew", _waits_for_the_answer),
    ),
    Story(
        "lease-is-renewed-at-a-third",
        "Two renewals that a busy machine delayed were enough to lose a lease",
        constant("ottla_core.cluster.session:RENEWALS", 3),
    ),
    Story(
        "registered-under-a-lost-lease",
        "A lease was lost while its owner registered under it, and the owner took itself for registered",
        instead_of(f"{_SESSION}._register_under", _registered_whatever_happened),
    ),
    Story(
        "answer-of-a-lease-that-is-over",
        "The late answer to a renewal of a lost lease was logged as an exception that was never retrieved",
        instead_of(f"{_SESSION}._on_renewal", _answer_not_taken),
    ),
    Story(
        "start-that-takes-too-long",
        "A start that took longer than its lease lives ended with a traceback",
        instead_of(f"{_SESSION}.start", _with_its_traceback),
    ),
    Story(
        "busy-server-seems-silent",
        "A connection failed where a busy server did not send its first frame within a tenth of a second",
        altered(
            "ottla_core.rpc.status:CHANNEL_OPTIONS",
            lambda options: tuple({**dict(options), "grpc.min_reconnect_backoff_ms": 50}.items()),
        ),
    ),
    Story(
        "calls-begun-at-once-are-cancelled",
        "Of 5,000 calls that began at once on one connection, 1,500 were cancelled at random, and no reason was given",
        altered(
            "ottla_core.rpc.status:SERVER_OPTIONS",
            lambda options: tuple(each for each in options if "max_pending_requests" not in each[0]),
        ),
    ),
    Story(
        "listener-drains-as-long-as-it-may",
        "After a controlled shutdown without a controller, a listener's drain ended with an error and a traceback",
        constant("ottla_broker.kafka.network.listener:_DRAIN_S", 5.0),
    ),
    Story(
        "calls-to-a-stopped-server-are-cancelled",
        "gRPC cancelled all calls that an overloaded or stopped server had not taken within 30 seconds",
        altered(
            "ottla_core.rpc.status:SERVER_OPTIONS",
            lambda options: tuple(each for each in options if "max_unrequested_time" not in each[0]),
        ),
    ),
    Story(
        "python-is-late-three-times",
        "A job of spark/jobs ended when Spark could not start a Python process within ten seconds for the third time",
        constant("job:_START_PATIENCE_S", 20.0),
    ),
)
