"""What compaction makes of a log: batches that nobody could send, room that was not there, work that did not count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.regressions.injection import altered, instead_of, skipped
from tests.regressions.story import Story

_CLEANER = "ottla_broker.compaction"
_STATUS = "ottla_core.rpc.status"
_GRPC_LIMITS = ("grpc.max_receive_message_length", "grpc.max_send_message_length")


def _as_large_as_requests(options):
    return tuple((name, 32 << 20 if name in _GRPC_LIMITS else value) for name, value in options)


def _stored_raw(original, header, records):
    from ottla_core.records.batch import CODEC_MASK, framed

    yield framed(header._replace(attributes=header.attributes & ~CODEC_MASK), b"".join(records))


def _handed_over_in_the_end(original, job, take=None):
    groups: list[Any] = []
    result = original(job, groups.append)
    for group in groups:
        take(group)
    return result


def _whole_frame(original, self, correlation_id, body):
    return self._types.response(correlation_id=correlation_id, body=body).SerializeToString()


def _never_by_a_clock_set_back(original, self, flush_ms, now_ms):
    return now_ms - self._flushed_at_ms >= flush_ms


STORIES = (
    Story(
        "batch-beyond-a-grpc-frame",
        "A batch of more than 32 MiB was never replicated: no response could hold it",
        altered(f"{_STATUS}:SHARED_CHANNEL_OPTIONS", _as_large_as_requests),
        altered(f"{_STATUS}:CHANNEL_OPTIONS", _as_large_as_requests),
        altered(f"{_STATUS}:SERVER_OPTIONS", _as_large_as_requests),
    ),
    Story(
        "unsendable-batch-ends-a-session",
        "One batch that no response could hold ended the session of all partitions of its leader, again and again",
        skipped("ottla_broker.storage.reading:_check_sendable"),
        instead_of("ottla_core.rpc.streams:_ServedStream._sendable", _whole_frame),
    ),
    Story(
        "max-message-bytes-without-end",
        "max.message.bytes took values beyond what a response can hold",
        altered(
            "ottla_core.configs.config_table:TOPIC_CONFIGS",
            lambda table: {name: replace(key, most=None) for name, key in table.items()},
        ),
    ),
    Story(
        "survivors-stored-as-a-giant",
        "Compaction stored half a megabyte of records that compress too well as one batch of 35 MB",
        instead_of(f"{_CLEANER}.sealing:_divided", _stored_raw),
    ),
    Story(
        "retention-spoils-a-cleaning",
        "A cleaning did not count where retention took a segment meanwhile: the log was cleaned again and again",
        skipped("ottla_broker.storage.compaction:Compaction.hold"),
    ),
    Story(
        "cleaned-before-it-is-deleted",
        "A cleaning went through segments that retention took right afterwards",
        instead_of("ottla_broker.replication.replica:Replica.tidy", lambda original, self, now_ms: None),
    ),
    Story(
        "deleted-records-are-cleaned-without-end",
        "A log whose sealed records were all deleted was cleaned without a pause until retention took its last segment",
        instead_of(f"{_CLEANER}.candidate:_not_deleted", lambda original, segments, log_start_offset: segments),
    ),
    Story(
        "all-cleaned-segments-beside-their-log",
        "A cleaning wrote all its segments before the first took its place: it needed the room of its log again",
        instead_of(f"{_CLEANER}.cleaning:clean", _handed_over_in_the_end),
    ),
    Story(
        "worker-that-ends-loses-all-its-work",
        "What a cleaner's worker had done was done again where it was killed or took too long",
        skipped(f"{_CLEANER}.candidate:Candidate.on_passed"),
    ),
    Story(
        "cleaning-fills-the-disk",
        "A cleaning took the last byte of the disk, and the broker became read-only",
        skipped(f"{_CLEANER}.room:Room.check"),
    ),
    Story(
        "keyless-record-stops-compaction",
        "One record without a key, older than cleanup.policy=compact, stopped the compaction of its log for good",
        instead_of(
            f"{_CLEANER}.survivors:check_keyless",
            lambda original, offset, *, drops: original(offset, drops=False),
        ),
    ),
    Story(
        "segments-are-read-on-the-loop",
        "Every look at a log with max.compaction.lag.ms read its segments on the loop",
        instead_of(f"{_CLEANER}.candidate:Candidate.reads_disk", lambda original, config: False),
    ),
    Story(
        "clock-set-back-stops-flushes",
        "A clock that was set back by an hour put off the flushes of flush.ms by an hour",
        instead_of("ottla_broker.storage.flushing:Flusher._is_time", _never_by_a_clock_set_back),
    ),
)
