"""Producers: what they promise while threads fail, callbacks raise, processes fork and signals come; and mirrors."""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

from tests.regressions.injection import altered, constant, instead_of, skipped
from tests.regressions.story import Story

_PRODUCER = "ottla.producer"
_NAMES = "ottla_mirror.machines.topic_names:TopicNames"


def _closed_before_the_line(original, self, timeout):
    self._sync.close(self._sync._seconds(timeout))
    original(self, timeout)


async def _flushed_in_the_line(original, self, timeout=None):
    if not self._closed:
        await self._behind_line(self._sync.flush, timeout)
    self._unretrieved.raise_failures()


def _letting_exits_through(original, call):
    exits = []

    def run():
        try:
            call()
        except Exception:
            raise
        except BaseException as error:
            exits.append(error)

    original(run)
    for error in exits:
        raise error


def _quickly_after_an_error(original, self, limit_s, quiet_s=float("inf")):
    original(self, limit_s if quiet_s == float("inf") else 0.1)


def _counted_by_the_caller(original, self):
    drafts, header = original(self)
    return drafts._replace(record_count=self.record_count), header


def _watched_by_nobody(original, self, producer):
    from ottla.producer import closing

    closing._open[self] = None


def _failed_in_silence(original, self, bug):
    original(self, bug)
    self.failed = None


def _asking_though_it_is_known(original, self, batch, timeout):
    self._announcer.guard.check()
    return original(self, batch, timeout)


def _never_disowned(original, self, batch, callback, *, awaited=True):
    self._announcer.disowned = False
    original(self, batch, callback, awaited=awaited)


def _as_if_grpc_were_unknown(original, address, protocol, *, uses_tls):
    return original(address, "" if protocol == "grpc" else protocol, uses_tls=uses_tls)


def _refreshed_and_not_followed(original, self, topic):
    view = self._cluster.fetch_metadata([topic], timeout=self._options.max_block_s).topics.get(topic)
    if view is not None and not view.error:
        self._update(view)


def _again_before_it_is_complete(original, self, source, target, length):
    original(self, source, target, length)
    again, self._again = self._again, []
    if again:
        self._forget_from(again[0].source)
        for stretch in again:
            self._append(stretch)


def _own_topics_are_copies(original, self, topic):
    copy = self.target_of_any(topic)
    is_own = copy in (self.checkpoints, self.state, self.offset_syncs)
    is_included = any(pattern.fullmatch(topic) for pattern in self._included)
    return copy if is_own and is_included and not self._internal.fullmatch(topic) else original(self, topic)


STORIES = (
    Story(
        "line-without-a-bound",
        "While a broker was silent the asyncio producer took 149,283 records and 223 MB, with a buffer of 1 MiB",
        constant("ottla.aio.producer:_LEAST_LINE_BYTES", 1 << 40),
    ),
    Story(
        "aio-close-drops-line",
        "The end of `async with aio.Producer` closed it before its accepted records were sent: 0 of 10 arrived",
        instead_of("ottla.aio.producer:Producer._close_behind_line", _closed_before_the_line),
    ),
    Story(
        "cancelled-flush-holds-the-line-up",
        "After a cancelled flush of aio.Producer, sends to new topics waited behind it for two minutes",
        instead_of("ottla.aio.producer:Producer.flush", _flushed_in_the_line),
    ),
    Story(
        "aio-swallows-failures",
        "Neither flush() nor close() of the asyncio producer raised for failed records that nobody awaited",
        skipped("ottla.aio.unretrieved:UnretrievedFailures.add"),
    ),
    Story(
        "flush-before-callbacks",
        "flush() returned while delivery callbacks of the flushed records were still to run",
        skipped(f"{_PRODUCER}.delivery:Announcer.flush", True),
    ),
    Story(
        "close-leaves-callbacks-behind",
        "close() gave callbacks a few seconds, whatever its timeout, and dropped the others",
        instead_of(f"{_PRODUCER}.delivery:Announcer.close", lambda original, self, timeout: original(self, 1.0)),
    ),
    Story(
        "callback-ends-all-callbacks",
        "A delivery callback that raised SystemExit ended the callback thread: no other callback ever ran",
        instead_of(f"{_PRODUCER}.delivery:_shielded", _letting_exits_through),
    ),
    Story(
        "raising-block-drops-records",
        "A `with` block that raised dropped accepted records that were not acknowledged within seconds",
        instead_of(f"{_PRODUCER}.producer:Producer._close", _quickly_after_an_error),
    ),
    Story(
        "local-producer-loses-its-records",
        "A local producer that was never closed lost its accepted records silently: 0 of 100 arrived",
        constant(f"{_PRODUCER}.closing:_open", WeakKeyDictionary()),
        instead_of(f"{_PRODUCER}.closing:Closing.watch", _watched_by_nobody),
    ),
    Story(
        "sender-dies-unmissed",
        "After its sending thread had failed, a producer accepted records for ever and settled none of them",
        instead_of(f"{_PRODUCER}.sender:Sender._fail", _failed_in_silence),
    ),
    Story(
        "signal-handler-deadlocks-send",
        "A signal handler that sent, flushed or closed while the main thread was in send() deadlocked",
        constant(f"{_PRODUCER}.sender:RLock", Lock),
        instead_of(
            "ottla.client.guard:whether_owned",
            lambda original, lock: original(lock) if hasattr(lock, "_is_owned") else bool,
        ),
    ),
    Story(
        "signal-handler-closes-consumer",
        "A signal handler that closed a consumer during a poll waited for threads that waited for that poll",
        skipped("ottla.consumer.concurrent_use:ConcurrentUseGuard.once_out", False),
    ),
    Story(
        "fork-without-a-word",
        "After a fork a producer accepted the child's records for ever; results, polls and commits never came",
        skipped("ottla_core.forks:in_children"),
        skipped("ottla.client.guard:Guard.check_process"),
    ),
    Story(
        "delivery-of-a-child-waits-for-a-lock",
        "In a forked child result() of a settled delivery waited for a lock for ever",
        instead_of(f"{_PRODUCER}.delivery:Ticket.wait", _asking_though_it_is_known),
    ),
    Story(
        "callback-of-a-child-never-comes",
        "In a forked child add_done_callback() accepted callbacks that nothing would ever call",
        instead_of(f"{_PRODUCER}.delivery:Ticket.add_callback", _never_disowned),
    ),
    Story(
        "no-broker-no-word",
        "With no broker at its address a producer was silent for a minute, then raised chained tracebacks",
        instead_of(
            "ottla.client.cluster:ClusterClient._give_up",
            lambda original, self, last, timeout, *, over, late: original(self, last, timeout, over=over, late=False),
        ),
    ),
    Story(
        "wrong-port-of-the-own-stack",
        "A client at the port of a controller, coordinator or etcd was not told that it is a gRPC port",
        instead_of("ottla.client.diagnose:_named", _as_if_grpc_were_unknown),
    ),
    Story(
        "auto-types-by-content",
        'The type that the auto serializer gave back depended on the content: the str "[1]" came back as a list',
        instead_of(
            "ottla.serdes.serdes:_ByType.__init__",
            lambda original, self, name, *, auto: original(self, name, auto=False),
        ),
    ),
    Story(
        "snippets-that-type-checkers-refuse",
        "Snippets of docs/use/sdk.md did not pass mypy: partitions as tuples, FakeProducer's `with`, mixed headers",
        altered("ottla.client.by_partition:OffsetsByPartition", lambda either: either.__args__[1]),
    ),
    Story(
        "fixture-without-live-brokers",
        "On a busy machine the pytest fixture's topic failed: the only broker's lease had just ended",
        instead_of(
            "ottla_stack.pytest_plugin:create_when_brokers_live",
            lambda original, admin, name: admin.topics.create(name, partitions=1, if_exists="ok"),
        ),
    ),
    Story(
        "topics-never-forgotten",
        "A producer kept every topic it had ever sent to, in its memory and in each request for metadata",
        skipped(f"{_PRODUCER}.targets:Targets._forget_idle"),
    ),
    Story(
        "transactional-queues-never-forgotten",
        "A transactional producer kept a queue for each partition it had ever sent to, its sequences too",
        constant("ottla.machines.sequences:OwnedSequences.spent", False),
    ),
    Story(
        "interrupted-send-writes-a-batch-that-no-one-reads",
        "A signal handler raised within `send`, behind the copy of a record: the batch held it and did not count it",
        instead_of("ottla_core.records.compiled:CompiledBuilder._ended", _counted_by_the_caller),
    ),
    Story(
        "producer-that-only-counted",
        "A producer that had only counted a topic's partitions never learned their leaders: its record waited",
        instead_of(f"{_PRODUCER}.targets:Targets.refresh", _refreshed_and_not_followed),
    ),
    Story(
        "mirror-of-a-topic-that-has-grown",
        "A mirror could not write to the new partitions of a copy for as long as its metadata was fresh",
        skipped(f"{_PRODUCER}.targets:Targets.refresh"),
    ),
    Story(
        "mirror-that-translated-ahead",
        "While a mirror copied records again, offsets were translated to positions past records that it lacked",
        instead_of("ottla_mirror.machines.offset_map:OffsetMap.add", _again_before_it_is_complete),
    ),
    Story(
        "mirror-that-took-its-own-table-for-a-copy",
        "A mirror of all topics took its own topics in the target for copies, and then copied nothing at all",
        instead_of(f"{_NAMES}.target_of", _own_topics_are_copies),
    ),
    Story(
        "mirror-whose-own-topic-was-a-copy-to-kafkas-client",
        "Kafka's MirrorClient listed a topic of the mirror's own as a copy, and MirrorMaker 2 would copy it",
        instead_of(f"{_NAMES}.state", lambda original, self: self._internal_name(self._flow.source, "mirror")),
    ),
)
