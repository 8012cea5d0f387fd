"""What a replica was believed to have, and did not have."""

from __future__ import annotations

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_SESSION = "ottla_broker.machines.follower_session:FollowerSession"
_LOG_DIR = "ottla_broker.storage.log_dir:LogDir"
_LEADER = "ottla_broker.machines.partition:Leader"


def _taken_back_like_an_acceptance(original, self, followed):
    self._note(followed)
    original(self, followed)
    self._refused.clear()


def _by_its_end_alone(original, self, follower_id, offset):
    return self._followers[follower_id].log_end_offset >= offset


def _anew_where_no_record_is_left(original, self, ranges, cleaned_before):
    segment, end_offset = ranges[-1]
    self.on_begun_anew() if segment.base_offset == end_offset else original(self, ranges, cleaned_before)


def _of_any_end(original, *arguments, clean, recovery_point, **named):
    return original(*arguments, clean=clean, recovery_point=0 if clean else recovery_point, **named)


def _from_the_next_epoch_on(original, self, config, lag_max_s):
    leader = None if self.leading is None else self.leading.leader
    before = None if leader is None else leader.min_isr
    original(self, config, lag_max_s)
    if leader is not None:
        leader.min_isr = before


def _wherever_it_was_fetched(original, self, offset, response):
    return original(self, self._disk.log.log_end_offset, response)


STORIES = (
    Story(
        "consumer-sent-before-a-followers-start",
        "A consumer with a rack was sent to an in-sync replica whose log starts after its offset: it skipped retained "
        "records, or went back and forth for ever",
        instead_of(f"{_LEADER}.has_offset", _by_its_end_alone),
    ),
    Story(
        "lost-refusal-taken-for-an-acceptance",
        "The answer 'your log diverges' got lost, and the leader sent records that follow the divergence and proposed "
        "the replica for the ISR",
        instead_of(f"{_SESSION}.give_up", _taken_back_like_an_acceptance),
        instead_of(
            f"{_LEADER}.has_heard_of",
            lambda original, self, follower_id, broker_epoch: self._followers[follower_id].log_end_offset >= 0,
        ),
    ),
    Story(
        "truncated-to-its-start-forgot-producers",
        "A follower that truncated all of its records forgot the producers of the deleted ones: once it led, a repeat "
        "was written a second time",
        instead_of("ottla_broker.storage.producer_history:ProducerHistory.on_truncated", _anew_where_no_record_is_left),
    ),
    Story(
        "orderly-start-trusted-the-last-header",
        "After an orderly stop a log's end was taken from the last header, unchecked: a flipped bit moved the end",
        instead_of(
            "ottla_broker.storage.segment:Segment._is_last_batch_sound",
            lambda original, self, next_offset: next_offset >= 0,
        ),
        instead_of("ottla_broker.storage.log:open_segments", _of_any_end),
    ),
    Story(
        "unfenced-before-it-left-the-isr",
        "A broker that may have lost records was unfenced while partitions still relied on it",
        instead_of(
            "ottla_broker.membership.startup_readiness:is_relied_upon", lambda original, image, broker_id: False
        ),
    ),
    Story(
        "min-isr-from-the-next-epoch-on",
        "A leader took a new min.insync.replicas for the next leader epoch only",
        instead_of("ottla_broker.replication.replica:Replica.configure", _from_the_next_epoch_on),
    ),
    Story(
        "late-answers-are-written",
        "A follower wrote the answer to a fetch from another offset than where its log ends",
        instead_of("ottla_broker.replication.following:Following.on_fetched", _wherever_it_was_fetched),
    ),
    Story(
        "copy-put-back-in-place",
        "A backup of a running broker was copied back over its directory and vouched for itself: clean elections lost "
        "acknowledged records",
        instead_of("ottla_broker.storage.files:version", lambda original, path: original(path) and "any"),
    ),
    Story(
        "copy-put-back-beside-the-marker",
        "A copy was put back over a directory that had been closed in order: the marker of that stop vouched for it",
        instead_of("ottla_broker.storage.soundness:fits", lambda original, stop, recovery_points: True),
    ),
    Story(
        "short-log-sound-after-an-orderly-stop",
        "A log that had lost its end called itself sound after the next orderly restart, and decided an election",
        skipped(f"{_LOG_DIR}._write_incomplete"),
    ),
    Story(
        "old-copy-was-sound",
        "An old copy of a volume was recognized, and its logs still counted as sound when logs decide who leads",
        skipped(f"{_LOG_DIR}._distrust_logs"),
    ),
    Story(
        "snapshot-put-back-under-the-file-system",
        "A snapshot of a volume was put back under the same device in the same boot, and vouched for itself",
        instead_of(f"{_LOG_DIR}.compare", lambda original, self, newest, renewals=0: original(self, newest)),
    ),
)
