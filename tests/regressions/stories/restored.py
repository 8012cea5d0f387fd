"""Metadata stores that are restored from a backup, and partitions that fail for it and for other reasons."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

ELECTION = "services/controller/ottla_controller/machines/election.py"
RECOVERY = "services/controller/ottla_controller/machines/recovery.py"

STORIES = (
    Story(
        "metadata-older-than-a-log-is-a-bug",
        "A store that was restored from a backup elected an epoch below the log's: the assertion failed for ever",
        Edit(
            "services/broker/ottla_broker/storage/log.py",
            "        if leader_epoch < self.epochs.latest:\n",
            "        assert leader_epoch >= self.epochs.latest\n        if leader_epoch < self.epochs.latest:\n",
        ),
    ),
    Story(
        "one-listener-keeps-the-others-uninformed",
        "One partition's failure kept whom else to follow from being told: a healthy topic stayed at one copy",
        Edit(
            "services/broker/ottla_broker/replication/replica.py",
            "            self._context.on_role_change(self)\n            self._announced",
            "            self._announced",
        ),
    ),
    Story(
        "unforeseen-failure-of-one-partition",
        "What was no OttlaError in one partition ended the look at all of them, and was not tried again",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "except Exception as error:  # of this partition alone: the others are served, and this one tried again",
            "except OttlaError as error:",
        ),
    ),
    Story(
        "failing-partition-fills-the-log",
        "A partition that could not take its part was told of 4,600 times in 40 seconds",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "if str(error) != failure.text:",
            "if error is not None:",
        ),
    ),
    Story(
        "two-threads-in-one-log",
        "A partition that waited for its disk was tried again beside it: two threads were in one log",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "            if assignment.id in self._applying:\n"
            "                self._look_again.add(assignment.id)\n"
            "                continue\n",
            "",
        ),
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "            await replica.until_whole()\n",
            "",
        ),
        Edit(
            "services/broker/ottla_broker/replication/replica.py",
            '        assert not self.is_in_a_thread, f"{self}: the log may be about to end earlier"\n',
            "",
        ),
    ),
    Story(
        "restored-store-is-believed",
        "A store restored from a backup elected by the ISR of then: who had left it since led with what it had",
        Edit(ELECTION, "    if partition.restored != existing.restored:\n", "    if not partition.replicas:\n"),
    ),
    Story(
        "restored-store-decided-by-one-log",
        "After a restoration the first log that told its end led, though others may have had more",
        Edit(RECOVERY, "return count - min(configs.min_isr(id_.topic_id), count) + 1", "return 1"),
    ),
    Story(
        "epoch-below-the-logs",
        "After a restoration leaders were elected in epochs that their logs had seen already",
        Edit(
            RECOVERY,
            "seen = max(partition.leader_epoch, *(end.last_epoch for end in ends.values()))",
            "seen = partition.leader_epoch",
        ),
    ),
    Story(
        "restoration-counts-only-once-it-is-declared",
        "Between a broker's word that the store is older than its data and the restoration, leaders were elected by it",
        Edit(ELECTION, "restored=image.restored.count + image.is_behind,", "restored=image.restored.count,"),
    ),
    Story(
        "restored-store-is-not-noticed",
        "A store was restored and nobody said so: a broker that had followed it further led by the backup",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "if Followed(image.restored.count, image.revision) < self._log_dir().followed:",
            "if image.revision < 0:",
        ),
    ),
    Story(
        "start-forgets-how-far-it-has-followed",
        "A broker that found the store older than its data was killed before it said so; its next start knew nothing",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "        if self._is_registered():  # what a start has found is said by then: it may be forgotten\n    ",
            "",
        ),
    ),
    Story(
        "found-at-a-start-and-told-too-late",
        "A start found that the store is older than its data, and said so only once it might lead by it",
        Edit(
            "services/broker/ottla_broker/membership/description.py",
            "            ahead_of=self.older_metadata.revision,\n",
            "",
        ),
    ),
    Story(
        "follows-by-metadata-that-is-too-old",
        "A broker that was ahead of the metadata followed who led by it, and might have cut a log that was longer",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "return replace(partition, leader=NO_LEADER) if self._metadata.image.is_in_doubt(partition) else partition",
            "return partition",
        ),
    ),
    Story(
        "leads-by-metadata-that-is-too-old",
        "A broker that was ahead of the metadata led what the backup said, before the restoration was counted",
        Edit(
            "services/broker/ottla_broker/replication/replicas.py",
            "if self._log_dir().may_have_lost_tail or self._metadata.image.is_in_doubt(partition):",
            "if self._log_dir().may_have_lost_tail:",
        ),
    ),
    Story(
        "unfenced-before-the-restoration-is-counted",
        "A broker that was ahead of the metadata was unfenced at once: its directory forgot that it knew more",
        Edit(
            "services/broker/ottla_broker/membership/startup_readiness.py",
            "lambda image: image.revision >= revision and not image.is_behind, timeout",
            "lambda image: image.revision >= revision, timeout",
        ),
    ),
    Story(
        "restoration-is-counted-twice",
        "A broker told late of a restoration that was counted already, and it was counted once more",
        Edit(
            "services/broker/ottla_broker/membership/restored_metadata.py",
            "self._own.tell(ahead_of=self.revision)",
            "self._own.tell(ahead_of=self._own._metadata.image.revision)",
        ),
    ),
)
