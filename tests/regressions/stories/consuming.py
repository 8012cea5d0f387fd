"""The SDK's consumers: the records that they return, the offsets that they commit, and what follows an interrupt."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from tests.regressions.injection import instead_of, skipped
from tests.regressions.story import Story

_CONSUMER = "ottla.consumer"
_GROUP = "ottla.consumer.group"


def _in_one_progress(original, self, partition, first, topic_id=None):
    progress = original(self, partition, 1 << 62, topic_id)
    progress.end = min(progress.end, first)
    return progress


def _reading_the_run_twice(original, self):
    if self._run is not None:
        if not self._run.stale:
            return self._run
        self._forget(self._run)
    return None


def _searched_in_lists(original, ranked):
    subscribed = original(ranked)
    return {t: [i for i, m in enumerate(ranked) if t in m.subscription.topics] for t in subscribed}


def _one_at_a_time(original, self):
    taken = original(self)
    self._waiting.extendleft(reversed(taken[1:]))
    return taken[:1]


def _in_one_part(original, items):
    yield items


def _cleared_first(original, self, joining):
    self._joining = None
    original(self, joining)


def _started_once(original, self):
    if "was_started" in vars(self):
        return self
    self.was_started = True
    return original(self)


def _without_taking_back(original, self, *, well):
    in_hand, self._in_hand = self._in_hand, False
    try:
        return original(self, well=well)
    finally:
        self._in_hand = in_hand


def _present_topics_alone(original, self, joining):
    if joining.error is None and hasattr(result := joining.result(), "partitions_of"):
        present = {topic: count for topic, count in result.partitions_of.items() if count}
        joining._outcome = result._replace(partitions_of=present)
    original(self, joining)


def _any_topic_of_that_name(original, self, position, route, now):
    position.topic_id = None
    return original(self, position, route, now)


def _start_without_its_topic(original, self, position, version, start):
    return original(self, position, version, replace(start, topic_id=None))


def _resets_without_topics(original, self, partitions):
    from dataclasses import replace

    found = original(self, partitions)
    return {p: start if start.committed else replace(start, topic_id=None) for p, start in found.items()}


def _any_metadata(original, partition, offset):
    metadata = getattr(offset, "metadata", "")
    checked = original(partition, offset._replace(metadata="") if metadata else offset)
    return checked._replace(metadata=metadata)


def _ends_its_thread(original, self, commit):
    try:
        return original(self, commit)
    except Exception as error:
        raise SystemExit from error


def _commits_as_nobody(original, self, reason):
    original(self, reason)
    self.commits_as = self.identity


class _Strict(dict[object, object]):
    def get(self, key, default=None):
        return self[key]


def _topics_of_positions(original, self, partitions):
    with self._fetcher.lock:
        return {name: at.topic_id for name, at in self._subscription.positions.items() if at.topic_id}


def _keeping_the_topic_of_what_was_gathered(original, self):
    gathered = {position: position.read_topic_id for position in self._before}
    original(self)
    for position, topic_id in gathered.items():
        position.read_topic_id = topic_id


def _progress_of_any_topic(original, self, partition, first, topic_id=None):
    progress = self._partitions.get(partition) or original(self, partition, first, topic_id)
    progress.end = min(progress.end, first)
    return progress


def _left_when_given_up(original, self, partitions):
    original(self, [p for p in partitions if p in self._partitions and self._partitions[p].released])


def _forgetting_the_bug(original, self, bug):
    with self.lock:
        original(self, bug)
        self._bug = None


def _unguarded(original, self, outcome):
    outcome.call.waiter(outcome)


def _exits_are_no_outcome(original, self):
    if self._running.acquire(blocking=False):
        try:
            self._outcome = self._work()
        except Exception as error:
            self.error = error
        self.done = True
        self._on_done()


def _all_that_there_are(original, self, topics):
    return dict.fromkeys(topics, 0) | self._partitions_of(topics)


def _as_if_nothing_was_cut_off(original, self):
    self.is_cut_off = False
    original(self)


def _without_a_deadline(original, self):
    self._timeout_s = float("inf")
    original(self)


def _beside_no_express_fetch(original, self, target):
    return target not in self._express


def _always_raising(original, self, batch):
    raise batch.error


STORIES = (
    Story(
        "unreadable-batch-stops-its-readers-for-ever",
        "A batch that its producer had written wrongly stopped readers that skip bad records, and Apps, for ever",
        instead_of("ottla.consumer.reader:RecordReader._on_unreadable", _always_raising),
    ),
    Story(
        "interrupted-seek-ends-reading",
        "Ctrl-C in the midst of seek() or pause(), caught by the program, left a partition that was not read any more",
        instead_of(f"{_CONSUMER}.reader:RecordReader.take_back", _as_if_nothing_was_cut_off),
    ),
    Story(
        "partition-without-a-leader-ends-reading",
        "A consumer without a group read nothing, and then raised, while a partition without a position had no leader",
        instead_of("ottla.machines.metadata:ClusterView.is_offline", lambda original, self, partition: False),
    ),
    Story(
        "lag-behind-the-end-of-a-transaction",
        "A group that committed `batch.offsets` at the end of a transactional topic had a lag of one for good",
        skipped(f"{_CONSUMER}.reader:RecordReader._positions_of", {}),
    ),
    Story(
        "table-snapshot-at-another-isolation-level",
        "A table of committed records began with the snapshot of one that read uncommitted ones: aborted values stayed",
        instead_of(
            "ottla.table.snapshot:TableSnapshot._check",
            lambda original, self, head, first, consumer: original(
                self, head._replace(read_committed=consumer._fetcher.read_committed), first, consumer
            ),
        ),
    ),
    Story(
        "table-snapshot-of-deleted-records",
        "A table that began with its snapshot kept keys whose records retention had deleted from the topic",
        instead_of(
            "ottla.table.snapshot:TableSnapshot._check",
            lambda original, self, head, first, consumer: original(self, head, head.first_offsets, consumer),
        ),
    ),
    Story(
        "commits-that-pile-up",
        "Each commit_async was a round trip: of 60,000 commits, one per record, 59,463 were lost at a clean end",
        instead_of(f"{_GROUP}.commits:Commits._take", _one_at_a_time),
    ),
    Story(
        "more-partitions-than-one-call-takes",
        "A member with more than 10,000 partitions could neither fetch its offsets nor commit them",
        instead_of(f"{_GROUP}.commits:in_parts", _in_one_part),
    ),
    Story(
        "topics-searched-in-lists",
        "range and roundrobin searched each topic in each member's list of topics: 10,000 topics took minutes",
        instead_of("ottla.machines.assignors:_indexes_by_topic", _searched_in_lists),
    ),
    Story(
        "partitions-added-while-a-static-leader-was-away",
        "A static member that led its group came back without a rebalance: partitions added meanwhile had no reader",
        instead_of("ottla.consumer.group.joining:Joining._given_out", _all_that_there_are),
    ),
    Story(
        "interrupted-reading-skips",
        "Records were gathered when Ctrl-C or a signal's handler raised: they were committed, and nobody had seen them",
        skipped(f"{_CONSUMER}.reader:RecordReader.take_back"),
    ),
    Story(
        "signal-handler-breaks-a-poll",
        "A signal handler that committed during a poll raised AttributeError, or its commit waited for a minute",
        instead_of(f"{_CONSUMER}.reader:RecordReader._being_read", _reading_the_run_twice),
        instead_of("ottla.client.guard:Guard.check", lambda original, self: self.check_process()),
    ),
    Story(
        "interrupted-joining-hangs",
        "A member that was interrupted between two steps of a rebalance forgot the answer and never read again",
        instead_of(f"{_GROUP}.assignment:GroupAssignment._on_join_result", _cleared_first),
        instead_of(f"{_GROUP}.call:Call.start", _started_once),
    ),
    Story(
        "cancelled-poll-is-committed",
        "A cancelled poll of aio.Consumer gathered records all the same, and the next commit covered them",
        instead_of(
            f"{_CONSUMER}.concurrent_use:ConcurrentUseGuard.__init__",
            lambda original, self, state: original(self, SimpleNamespace(take_back=lambda: None)),
        ),
        instead_of(f"{_GROUP}.reader:GroupReader.processed", _without_taking_back),
    ),
    Story(
        "cancelled-poll-undoes-a-seek",
        "A poll after a cancelled poll and a seek of aio.Consumer returned what the cancelled one had gathered",
        skipped("ottla.aio.consumer:Consumer._end"),
    ),
    Story(
        "topic-away-at-a-rebalance-is-read-by-nobody",
        "A topic was deleted, its group rebalanced, and the topic was created again: nobody read its partitions",
        instead_of(f"{_GROUP}.assignment:GroupAssignment._on_join_result", _present_topics_alone),
    ),
    Story(
        "topic-made-anew-is-read-from-the-middle",
        "A topic was deleted, created again and filled beyond the position: its first records were skipped silently",
        instead_of("ottla.machines.subscription:SubscriptionState._is_another_topic", _any_topic_of_that_name),
    ),
    Story(
        "commits-of-a-topic-made-anew",
        "A group's offsets in a deleted topic were taken for positions in the next topic with that name",
        instead_of(f"{_GROUP}.start_positions:PositionInitializer._set", _start_without_its_topic),
    ),
    Story(
        "one-bad-argument-ends-all-commits",
        "A commit with metadata that was not a string ended the thread of all commits: every later one timed out",
        instead_of("ottla.client.offsets:_checked_offset", _any_metadata),
    ),
    Story(
        "unforeseen-error-ends-all-commits",
        "An unforeseen error of one commit ended the thread of all commits: every later one timed out",
        instead_of(f"{_GROUP}.commits:Commits._run_round", _ends_its_thread),
    ),
    Story(
        "ctrl-c-leaves-a-ghost",
        "Ctrl-C in a loop over a consumer without a `with` block: nothing was committed, and its group waited for it",
        skipped(f"{_CONSUMER}.consumer:Consumer._leave_at_exit"),
    ),
    Story(
        "daemon-thread-leaves-a-ghost",
        "A program ended while a daemon thread polled: nothing was committed, and its group waited for the member",
        instead_of(
            f"{_CONSUMER}.consumer:Consumer._leave_at_exit",
            lambda original, self: original(self) if self.use_guard._user is None else None,
        ),
    ),
    Story(
        "leader-evicted-while-it-gives-out",
        "A group's leader sent no heartbeats while its assignor ran for longer than the session: it was evicted",
        instead_of(
            "ottla.machines.membership:Membership.heartbeat_at",
            lambda original, self: original(self) if self.state.name == "STABLE" else float("inf"),
        ),
    ),
    Story(
        "evicted-member-that-committed-as-nobody",
        "A member that had just been evicted committed in a transaction without a generation, which was accepted",
        instead_of("ottla.machines.membership:Membership._lose", _commits_as_nobody),
    ),
    Story(
        "closed-with-a-reset-position",
        "close() raised KeyError and committed nothing where a position had been reset since the last poll",
        instead_of(
            f"{_GROUP}.committer:OffsetCommitter.handed_out",
            lambda original, self, *partitions: _Strict(original(self, *partitions)),
        ),
    ),
    Story(
        "offsets-of-the-topic-that-was-read",
        "commit(offsets) after its topic was created again became a position in the new topic, past unread records",
        instead_of(f"{_GROUP}.assignment:GroupAssignment._topic_ids", _topics_of_positions),
    ),
    Story(
        "late-commit-of-what-nobody-read",
        "A commit for a partition of which nothing was read waited for its deleted topic and went into the next one",
        instead_of(f"{_GROUP}.start_positions:StartPositionFinder.find", _resets_without_topics),
    ),
    Story(
        "interrupted-reading-of-another-topic",
        "Ctrl-C in a poll that had gathered from a topic created again: offsets of the former one were committed in it",
        instead_of(f"{_CONSUMER}.reader:RecordReader.take_back", _keeping_the_topic_of_what_was_gathered),
    ),
    Story(
        "offsets-of-a-transactions-topic",
        "A transaction committed offsets of a topic that had been created again since: positions in the new one",
        instead_of("ottla.producer.txn_client:in_topics", lambda original, offsets, topic_ids: original(offsets, {})),
    ),
    Story(
        "handled-of-a-topic-made-anew",
        "An App committed in a topic that was created again what it had handled of the former one: records were lost",
        instead_of("ottla.machines.progress:RecordsInFlight.of", _progress_of_any_topic),
        skipped("ottla.machines.progress:RecordsInFlight.topic_id", b""),
    ),
    Story(
        "app-that-stops-reading-a-topic-made-anew",
        "An App repeated for ever a commit for a topic that is another one now, and stopped reading once it was full",
        instead_of("ottla.machines.progress:RecordsInFlight.leave", _left_when_given_up),
    ),
    Story(
        "same-offset-in-another-topic",
        "A topic created again was read as far as the former one was committed, and that was not committed in it",
        instead_of(
            f"{_GROUP}.committer:_is_same",
            lambda original, known, committed: known is not None and known.offset == committed.offset,
        ),
    ),
    Story(
        "round-of-a-topic-made-anew",
        "An exactly-once App whose round was aborted continued at the former topic's offset in a topic created again",
        instead_of(
            f"{_CONSUMER}.consumer:Consumer.seek",
            lambda original, self, partition, offset, *, stop=None, topic_id=None: original(
                self, partition, offset, stop=stop
            ),
        ),
    ),
    Story(
        "nowhere-was-the-end",
        "A consumer without a group, a start or a reset read from the end and skipped what was there, silently",
        instead_of(
            f"{_CONSUMER}.start_offsets:ReadingPlan._timestamp",
            lambda original, self, now_ms: -1 if (found := original(self, now_ms)) is None else found,  # the latest
        ),
    ),
    Story(
        "closed-while-it-starts",
        "A consumer closed by one thread while another began to read requested metadata four times a second for ever",
        instead_of(
            "ottla.client.cluster:ClusterClient.at_close",
            lambda original, self, end: original(self, end) if self._closed else None,
        ),
    ),
    Story(
        "consumers-thread-dies-unmissed",
        "After an unforeseen error on a consumer's thread no record came any more, or no heartbeat was sent, silently",
        instead_of(f"{_CONSUMER}.fetcher:Fetcher.fail", _forgetting_the_bug),
    ),
    Story(
        "callback-that-raises-is-not-logged",
        "An error raised by a stream's callback was in no log, and an exit in one left its frames open for ever",
        instead_of("ottla.client.kafka.sockets.line:Line._tell", _unguarded),
    ),
    Story(
        "assignor-that-exits",
        "A user's assignor raised SystemExit: its member waited for an assignment for ever, silently",
        instead_of(f"{_GROUP}.call:Call._run", _exits_are_no_outcome),
    ),
    Story(
        "stop-in-a-topic-that-is-gone",
        "A topic was deleted, or created again with fewer records, while it was read to its end: the read never ended",
        skipped(f"{_CONSUMER}.fetcher:Fetcher._look_for_deleted"),
        instead_of(
            "ottla.machines.position:Position.is_behind_stop",
            lambda original, self, offset: self.stop is not None and offset >= self.stop.offset,
        ),
    ),
    Story(
        "stop-behind-a-truncation",
        "A log was truncated while it was read to its end: the read waited for ever for the records that were lost",
        skipped("ottla.machines.subscription:SubscriptionState._on_stop_checked"),
    ),
    Story(
        "leader-that-forgets-no-topic",
        "A group's leader requested the metadata of 30 deleted topics for ever, five times a second",
        instead_of(
            "ottla.client.metadata_updater:MetadataUpdater.follow_only",
            lambda original, self, topics: self.follow(topics),
        ),
    ),
    Story(
        "closing-takes-a-commit-back",
        "close() after commit() moved the committed offset back: the records of the last poll came again",
        instead_of(f"{_GROUP}.committer:OffsetCommitter._beyond_known", lambda original, self, offsets: offsets),
    ),
    Story(
        "deleted-topic-stops-a-member",
        "A deleted topic stopped all partitions of a group's member after an aborted transaction or a rebalance",
        instead_of(
            "ottla.client.list_offsets:list_offsets",
            lambda original, cluster, timestamps, *, skips_missing=False, **how: original(cluster, timestamps, **how),
        ),
    ),
    Story(
        "position-that-is-waited-for",
        "`position()` of a group's member waited for ever for another partition, which had no leader",
        instead_of(f"{_GROUP}.start_positions:PositionInitializer.wait", _without_a_deadline),
    ),
    Story(
        "closed-consumers-leave-fetch-sessions",
        "A consumer that closed between two fetches left its session at each broker, which has room for 1,000 of them",
        instead_of(
            "ottla.client.kafka.peer:KafkaStream._say_goodbye", lambda original, self, session: self._on_left(None)
        ),
    ),
    Story(
        "hanging-express-fetch-blocked-its-session",
        "If a broker left one fetch of a consumer unanswered, the consumer read none of the other partitions from it "
        "for request_timeout",
        instead_of("ottla.machines.fetch_sessions:FetchSessions.may_begin", _beside_no_express_fetch),
    ),
    Story(
        "member-that-waits-leaves-its-group",
        "A member that waited for records left its group after max_poll_interval, because only the begin of a poll "
        "counted",
        skipped(f"{_GROUP}.heartbeats:is_held"),
    ),
    Story(
        "app-stands-still-after-a-truncation",
        "An app whose topic lost more records than may be in flight read no further: they stayed in flight for ever",
        instead_of("ottla.machines.progress:RecordsInFlight.of", _in_one_progress),
    ),
)
