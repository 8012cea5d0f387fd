"""Group-coordinators, and what Kafka's clients are told of groups."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "offsets-of-a-deleted-topic",
        "A member committed after its topic was deleted; the next topic of that name was read from there on",
        Edit(
            "services/group-coordinator/ottla_group_coordinator/machines/offsets.py",
            "outcomes = [check_topic(commit, topics) or _check_metadata(commit, settings) for commit in requested]",
            "outcomes = [_check_metadata(commit, settings) for commit in requested]",
        ),
        Edit(
            "services/group-coordinator/ottla_group_coordinator/machines/offsets.py",
            "topic_id=topics[commit.partition.topic].id,",
            "topic_id=None,",
        ),
    ),
    Story(
        "offsets-of-a-deleted-topic-at-takeover",
        "A topic was deleted while nobody owned the shard: what a living group had committed in it stayed for ever",
        Edit(
            "services/group-coordinator/ottla_group_coordinator/deleted_topics.py",
            "if isinstance(effect, Loaded):",
            "if False:",
        ),
        Edit(
            "services/group-coordinator/ottla_group_coordinator/service.py",
            "return look(await self._caught_up()) if look(self._metadata.image) else frozenset()",
            "return frozenset()",
        ),
        Edit(
            "services/group-coordinator/ottla_group_coordinator/machines/offsets.py",
            "return topic is None or (committed.topic_id is not None and committed.topic_id != topic.id)",
            "return False",
        ),
    ),
    Story(
        "damaged-batch-of-a-shard",
        "A damaged batch in __consumer_offsets: its shard was loaded for ever, and neither log nor metric said so",
        Edit("core/ottla_core/coordination/owner.py", "if (tries := self._failures) >= _REPORT_AFTER:", "if False:"),
        Edit("sdk/ottla/cli/commands/doctor.py", "for line in _shard_text(entry):", "for line in ():"),
    ),
    Story(
        "who-coordinates-a-group",
        "`ottla group ls`, `show` and `explain` did not say which coordinator owns a group",
        Edit(
            "sdk/ottla/cli/commands/group.py",
            '"members", "protocol_type", "coordinator")',
            '"members", "protocol_type")',
        ),
        Edit("sdk/ottla/cli/group_lag.py", "{who}; {behind}", "{count(item['members'], 'member')}; {behind}"),
    ),
    Story(
        "configs-of-groups-without-effect",
        "`ottla config set group.initial.rebalance.delay.ms=…` was stored, shown, and acted on by nobody",
        Edit(
            "services/group-coordinator/ottla_group_coordinator/app.py",
            "    follower.on_change(configs.on_image)\n",
            "",
        ),
        Edit(
            "services/group-coordinator/ottla_group_coordinator/config.py",
            "return replace(self, **altered)",
            "return replace(self)",
        ),
    ),
    Story(
        "commit-timeout-above-a-third-of-a-session",
        "offsets.commit.timeout.ms had no effect above a third of the shortest session: commits failed after 2 s",
        Edit(
            "core/ottla_core/coordination/owner.py",
            "self._began_at, self._late_at = now.at, now.at + self.limits.append_s",
            "self._began_at, self._late_at = now.at, now.at + min(self.limits.append_s, self.limits.unproved_s)",
        ),
    ),
    Story(
        "waited-and-told-of-heartbeats",
        "A member that had waited 300 s in its first join was put out for having sent no heartbeat",
        Edit(
            "services/group-coordinator/ottla_group_coordinator/machines/membership.py",
            "if member.joining is not None:  # while it waits it sends none, and its session has no end",
            "if False:",
        ),
    ),
)
