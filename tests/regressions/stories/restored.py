"""Metadata stores that are restored from a backup, and partitions that fail for this and for other reasons."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_ELECTION = "ottla_controller.machines.election"
_RECOVERY = "ottla_controller.machines.recovery"
_REPLICAS = "ottla_broker.replication.replicas:Replicas"


def _asserted(original, self, leader_epoch):
    assert leader_epoch >= self.epochs.latest
    original(self, leader_epoch)


def _moved_in_silence(original, self, event):
    on_role_change, self._on_role_change = self._on_role_change, lambda replica: None
    try:
        original(self, event)
    finally:
        self._on_role_change = on_role_change


def _only_what_is_foreseen(original, self, assignment, error):
    from ottla_core.errors import OttlaError

    if not isinstance(error, OttlaError):
        raise error
    original(self, assignment, error)


def _forgotten_each_time(original, self, assignment, error):
    self._failures.pop(assignment.id, None)
    original(self, assignment, error)


def _logged_unless_it_has_no_text(original, self):
    original(self)
    self.text = ""


def _above_the_metadata_alone(original, image, partition, ends, willing):
    led = original(image, partition, ends, willing)
    epochs_seen = max(partition.leader_epoch, *(end.last_epoch for end in ends.values()))
    return replace(led, leader_epoch=led.leader_epoch - epochs_seen + partition.leader_epoch)


def _noted_before_it_is_said(original, self, image):
    is_registered, self._is_registered = self._is_registered, lambda: True
    original(self, image)
    self._is_registered = is_registered


class _Believed:
    """An image that says of itself that it is not behind."""

    is_behind = False

    def __init__(self, image):
        self._image = image

    def __getattr__(self, name):
        return getattr(self._image, name)


def _unfenced_at_once(original, self, revision, epoch):
    replicas = self._replicas

    def until(condition, *, timeout):
        return replicas.until(lambda image: condition(_Believed(image)), timeout=timeout)

    self._replicas = SimpleNamespace(until=until)
    return original(self, revision, epoch)


STORIES = (
    Story(
        "metadata-older-than-a-log-is-a-bug",
        "A store restored from a backup elected an epoch below the log's: an assertion failed for ever",
        instead_of("ottla_broker.storage.log:Log.assign_epoch", _asserted),
    ),
    Story(
        "one-listener-keeps-the-others-uninformed",
        "One partition's failure kept the replica fetcher from hearing whom to follow: a healthy topic had one copy",
        instead_of("ottla_broker.replication.replica:Replica._move", _moved_in_silence),
    ),
    Story(
        "unforeseen-failure-of-one-partition",
        "An error other than OttlaError in one partition ended the look at all of them, and was not tried again",
        instead_of(f"{_REPLICAS}._on_failure", _only_what_is_foreseen),
    ),
    Story(
        "failing-partition-fills-the-log",
        "A partition that could not take its part was logged 4,600 times in 40 seconds",
        instead_of(f"{_REPLICAS}._on_failure", _forgotten_each_time),
    ),
    Story(
        "failure-without-a-text-is-not-logged",
        "A partition could not take its role because of an error without a text, and that was never logged",
        instead_of("ottla_broker.replication.replicas:_Failure.__init__", _logged_unless_it_has_no_text),
    ),
    Story(
        "two-threads-in-one-log",
        "A partition that waited for its disk was tried again at the same time: two threads were in one log",
        skipped("ottla_broker.replication.disk_log:DiskLog.is_in_a_thread", False),
    ),
    Story(
        "restored-store-is-believed",
        "A store restored from a backup elected by its old ISR: a replica that had left it since led with what it had",
        instead_of(
            f"{_ELECTION}:settled",
            lambda original, partition, existing, rules: original(
                partition, replace(existing, restored=partition.restored), rules
            ),
        ),
    ),
    Story(
        "restored-store-decided-by-one-log",
        "After a restoration the first log that was reported led, though others may have had more",
        skipped(f"{_RECOVERY}:_needed", 1),
    ),
    Story(
        "epoch-below-the-logs",
        "After a restoration leaders were elected in epochs that their logs had seen before",
        instead_of(f"{_RECOVERY}:_led_by_the_longest", _above_the_metadata_alone),
    ),
    Story(
        "restoration-counts-only-once-it-is-declared",
        "A broker had reported that the store is older than its data; until the restoration was counted, it elected",
        instead_of(
            f"{_ELECTION}:available",
            lambda original, image, *within_grace: replace(
                original(image, *within_grace), restored=image.restored.count
            ),
        ),
    ),
    Story(
        "restored-store-is-not-noticed",
        "Nobody reported that a store was restored: a broker that had followed it further led by the backup",
        skipped(f"{_REPLICAS}._has_followed_further_than", False),
    ),
    Story(
        "young-backup-is-not-noticed",
        "A store was restored from so recent a backup that its decisions soon counted past those that it had lost",
        instead_of(
            "ottla_core.cluster.image:ClusterImage.is_older_than", lambda original, self, known: self.seq < known.seq
        ),
    ),
    Story(
        "epoch-without-a-record-beats-longer-logs",
        "A broker led by restored metadata without writing anything, and then its log counted as newer than others",
        instead_of("ottla_broker.storage.log:Log.last_epoch", lambda original, self: self.epochs.latest),
    ),
    Story(
        "new-cluster-without-its-first-configs",
        "A controller decided to begin its term, and so took a new cluster for one that had its first configs already",
        instead_of("ottla_core.cluster.image:ClusterImage.is_new", lambda original, self: self.seq == 0),
    ),
    Story(
        "start-forgets-how-far-it-has-followed",
        "A broker found the store older than its data and was killed before it said so; its next start knew nothing",
        instead_of(f"{_REPLICAS}._note_followed", _noted_before_it_is_said),
    ),
    Story(
        "found-at-a-start-and-told-too-late",
        "A start found that the store is older than its data, and said so only when it could already lead by it",
        instead_of(
            "ottla_broker.membership.description:BrokerDescription.__call__",
            lambda original, self, newest: replace(original(self, newest), ahead_of=None),
        ),
    ),
    Story(
        "follows-by-metadata-that-is-too-old",
        "A broker that was ahead of the metadata followed their leader, and might have truncated a longer log",
        instead_of(f"{_REPLICAS}._as_far_as_known", lambda original, self, partition: partition),
    ),
    Story(
        "leads-by-metadata-that-is-too-old",
        "A broker that was ahead of the metadata led by the backup before the restoration was counted",
        instead_of(
            f"{_REPLICAS}._is_to_lead",
            lambda original, self, replica, partition: (
                not self._log_dir().may_have_lost_tail and replica.must_become_leader(partition)
            ),
        ),
    ),
    Story(
        "unfenced-before-the-restoration-is-counted",
        "A broker that was ahead of the metadata was unfenced at once: its directory forgot that it knew more",
        instead_of("ottla_broker.membership.startup_readiness:StartupReadiness.until", _unfenced_at_once),
    ),
    Story(
        "restoration-is-counted-twice",
        "A broker's late report of a restoration that was counted already had it counted once more",
        instead_of(
            "ottla_broker.membership.own_registration:OwnRegistration.tell",
            lambda original, self, **fields: original(self, ahead_of=self._metadata.image.revision),
        ),
    ),
)
