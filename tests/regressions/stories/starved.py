"""Too little of the processor: slow, and nothing is lost or given up for it."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

SESSION = "core/ottla_core/cluster/session.py"

STORIES = (
    Story(
        "late-log-takes-the-shard-away",
        "An append that was not answered within 2 s cost its coordinator the shard, its state and a load: 59 times",
        Edit(
            "core/ottla_core/coordination/owner.py",
            "            self._reject_late(now)\n",
            "            if self._round is not None and now.at >= self._began_at + self.limits.append_s:\n"
            '                self._leave(OwnerEvent.DIVERGED, "the log could not be reached in time")\n',
        ),
    ),
    Story(
        "gap-distrusts-every-proof",
        "A gap of a second in a starved process made all its shards ask for proof anew, so no load ever ended",
        Edit("core/ottla_core/coordination/owner.py", "self._proved_until -= gap_s", "self._proved_until = -NEVER"),
    ),
    Story(
        "all-shards-load-at-once",
        "Fifty shards were loaded at the same time, and none of them got on",
        Edit(
            "core/ottla_core/coordination/runtime.py",
            "sum(held.is_loading for held in self._held.values()) < self.limits.loads_at_once:",
            "self._held:",
        ),
    ),
    Story(
        "stuck-load-keeps-others-waiting",
        "Shards whose logs have no leader took the places of those that could be loaded",
        Edit(
            "core/ottla_core/coordination/held_shard.py",
            "in (Phase.FENCING, Phase.LOADING) and not self.owner.is_stuck",
            "in (Phase.FENCING, Phase.LOADING)",
        ),
    ),
    Story(
        "tired-log-is-asked-ever-as-often",
        "A log that was late was asked again at the same short intervals by all shards",
        Edit(
            "core/ottla_core/coordination/owner.py", "limits.retry_s * 2.0 ** min(self._failures, 30)", "limits.retry_s"
        ),
    ),
    Story(
        "new-leader-is-asked-late",
        "A shard whose partition had another leader asked there only when its pause was over",
        Edit(
            "core/ottla_core/coordination/owner.py",
            "if self._call is not None and self.phase is not Phase.LEFT:",
            "if self._number < 0:",
        ),
    ),
    Story(
        "members-pay-for-a-late-log",
        "Members whose heartbeats were refused while the log was late were evicted when it came back",
        Edit(
            "core/ottla_core/coordination/owner.py",
            "if (late_s := now.at - self._began_at) > self.limits.unproved_s:",
            "if (late_s := now.at - self._began_at) < 0:",
        ),
    ),
    Story(
        "refused-for-good-is-asked-for-ever",
        "A batch that the log will never take, of which one sending was unknown, was sent for ever",
        Edit(
            "core/ottla_core/coordination/owner.py",
            "case Rejected(error) | Unknown(error) if not error.retriable and is_late:",
            "case Rejected(error) | Unknown(error) if self._number < 0:",
        ),
    ),
    Story(
        "left-shard-is-kept-by-its-timer",
        "A shard that was given to another stayed in memory, with all its groups, until its next timer",
        Edit(
            "core/ottla_core/coordination/held_shard.py",
            "                if self._wake is not None:\n"
            "                    self._wake.cancel()"
            "  # or it would keep the state until then, and a timer may be far\n",
            "",
        ),
    ),
    Story(
        "refusal-is-logged-as-a-bug",
        "Each refusal of a heartbeat that nobody waited for any more was logged as an exception nobody had taken",
        Edit(
            "core/ottla_core/coordination/held_shard.py",
            "    token.exception()  # the caller may have gone: asyncio would log that as a bug\n",
            "",
        ),
    ),
    Story(
        "renewal-waits-for-the-last-answer",
        "A starved broker that nobody had stopped lost its lease: it renewed only once the last renewal was answered",
        Edit(
            SESSION,
            "return bool((await asyncio.wait({renewal}, timeout=self._keep_alive_s))[0])",
            "return bool((await asyncio.wait({renewal}))[0])",
        ),
    ),
    Story(
        "lease-is-renewed-at-a-third",
        "Two renewals that a busy machine delayed were enough to lose a lease",
        Edit(SESSION, "RENEWALS: Final = 6\n", "RENEWALS: Final = 3\n"),
    ),
    Story(
        "registered-under-a-lost-lease",
        "A lease was lost while its owner registered under it, and the registration was taken for one",
        Edit(
            SESSION,
            "self._registered = not self._again and lease == self._lease",
            "self._registered = not self._again",
        ),
    ),
    Story(
        "answer-of-a-lease-that-is-over",
        "A renewal's late answer, of a lease that was lost already, was an exception that nobody had taken",
        Edit(
            SESSION,
            "        error = renewal.exception()  # retrieved, or asyncio would log it\n"
            "        if lease != self._lease:\n"
            "            return  # another answer has said that it is lost\n",
            "        if lease != self._lease:\n            return\n        error = renewal.exception()\n",
        ),
    ),
    Story(
        "start-that-takes-too-long",
        "A start that took longer than its lease lives ended with a traceback",
        Edit(
            SESSION,
            "            raise StoreUnavailableError(message, indefinite=True) from None\n",
            "            raise\n",
        ),
    ),
)
