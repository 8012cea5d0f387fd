"""What producers promise, when threads fail, callbacks raise, processes fork and signals come; and first contact."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "aio-close-drops-line",
        "The end of `async with aio.Producer` closed it before what its send() had taken was sent: 0 of 10 records",
        Edit("sdk/ottla/aio/producer.py", "self._thread.submit(_nothing).result(limit_s)", "pass"),
    ),
    Story(
        "cancelled-flush-holds-the-line-up",
        "A flush of aio.Producer was cancelled and waited on: sends to new topics stood behind it for two minutes",
        Edit("sdk/ottla/aio/producer.py", "asyncio.to_thread(self._sync.flush", "self._behind_line(self._sync.flush"),
    ),
    Story(
        "aio-swallows-failures",
        "Records failed that nobody awaited, and neither flush() nor close() of the asyncio producer said so",
        Edit("sdk/ottla/aio/producer.py", "            self._unretrieved.add(sending)\n", ""),
    ),
    Story(
        "flush-before-callbacks",
        "flush() returned while delivery callbacks of what it had sent were still to run",
        Edit(
            "sdk/ottla/producer/producer.py",
            "if not self._announcer.flush(deadline_at - self._clock.monotonic()):",
            "if False:",
        ),
    ),
    Story(
        "close-leaves-callbacks-behind",
        "close() gave callbacks a few seconds, whatever its timeout, and left the others behind",
        Edit(
            "sdk/ottla/producer/closing.py",
            "self.announcer.close(max(_LAST_CALLBACKS_S, deadline_at - self.cluster.clock.monotonic()))",
            "self.announcer.close(_LAST_CALLBACKS_S)",
        ),
    ),
    Story(
        "callback-ends-all-callbacks",
        "A delivery callback that raised SystemExit ended the callback thread: no other callback ever ran",
        Edit(
            "sdk/ottla/producer/delivery.py",
            "    except BaseException:\n        logger",
            "    except Exception:\n        logger",
        ),
    ),
    Story(
        "raising-block-drops-records",
        "A `with` block that raised dropped what its sends had accepted, unless it was acknowledged within seconds",
        Edit("sdk/ottla/producer/producer.py", "self._close(self._delivery_s, _QUIET_S)", "self._close(0.1)"),
    ),
    Story(
        "local-producer-loses-its-records",
        "A producer that a function had made and not closed lost what it had accepted: 0 of 100 records, and no word",
        Edit(
            "sdk/ottla/producer/closing.py",
            "_open: Final[set[Closing]] = set()",
            "_open: Final[weakref.WeakSet[Closing]] = weakref.WeakSet()",
        ),
        Edit(
            "sdk/ottla/producer/closing.py",
            "        weakref.finalize(producer, self._on_garbage).atexit = False\n",
            "",
        ),
    ),
    Story(
        "sender-dies-unmissed",
        "After its sending thread had failed once, a producer took records for ever and settled none",
        Edit("sdk/ottla/producer/sender.py", "            self.failed = bug\n", "            pass\n"),
    ),
    Story(
        "signal-handler-deadlocks-send",
        "A signal handler that sent, flushed or closed while the main thread stood in send() waited for itself",
        Edit("sdk/ottla/producer/sender.py", "self.lock: Final = RLock()", "self.lock: Final = Lock()"),
        Edit("sdk/ottla/client/guard.py", "= lock._is_owned ", "= getattr(lock, '_is_owned', bool) "),
    ),
    Story(
        "signal-handler-closes-consumer",
        "A signal handler that closed a consumer in the middle of a poll waited for threads that waited for that poll",
        Edit("sdk/ottla/consumer/concurrent_use.py", "        if self._owned():\n", "        if False:\n"),
    ),
    Story(
        "fork-without-a-word",
        "After a fork a producer took the child's records for ever; results, polls and commits never came",
        Edit("sdk/ottla/producer/closing.py", "in_children(_disown)\n", ""),
        Edit("sdk/ottla/client/guard.py", "        if self.foreign:\n", "        if False:\n"),
    ),
    Story(
        "delivery-of-a-child-waits-for-a-lock",
        "In a child of a fork the result of a settled delivery waited for a lock for ever, and no callback ever came",
        Edit("sdk/ottla/producer/delivery.py", "        if settled:  # before the lock", "        if False:  #"),
        Edit("sdk/ottla/producer/closing.py", "        closing.announcer.disowned = True\n", ""),
    ),
    Story(
        "no-broker-no-word",
        "With no broker at its address a producer was silent for a minute, then raised chained tracebacks",
        Edit(
            "sdk/ottla/client/cluster.py",
            "late = next_at >= deadline_at, not self._contacted and",
            "late = next_at >= deadline_at, False and",
        ),
    ),
    Story(
        "wrong-port-of-the-own-stack",
        "A client at the port of the own controller, coordinator or etcd heard gRPC's words for an unknown method",
        Edit(
            "sdk/ottla/client/cluster.py",
            "error.code == ErrorCode.UNSUPPORTED_VERSION and not self._contacted",
            "False",
        ),
    ),
    Story(
        "auto-types-by-content",
        'What the auto serializer gave back depended on the content: the str "[1]" came back as a list; 1 was refused',
        Edit("sdk/ottla/serdes/serdes.py", "        silent = not self._auto or", "        silent = True or"),
    ),
    Story(
        "snippets-that-type-checkers-refuse",
        "Snippets of docs/use/sdk.md did not pass mypy: partitions as tuples, FakeProducer's `with`, mixed headers",
        Edit(
            "sdk/ottla/client/by_partition.py",
            "OffsetsByPartition = Mapping[tuple[str, int], int] | Mapping[TopicPartition, int]",
            "OffsetsByPartition = Mapping[TopicPartition, int]",
        ),
    ),
    Story(
        "fixture-without-live-brokers",
        "On a busy machine the pytest fixture's topic failed: the only broker's lease had just ended",
        Edit("stack/ottla_stack/pytest_plugin.py", "error.code != ErrorCode.INVALID_REPLICATION_FACTOR or", "True or"),
    ),
    Story(
        "topics-never-forgotten",
        "A producer kept every topic it had ever sent to, in its memory and in each request for metadata",
        Edit("sdk/ottla/producer/targets.py", "        self._forget_idle()\n", ""),
    ),
    Story(
        "producer-that-only-counted",
        "A producer that counted a topic's partitions first of all never learned where they are: its record waited",
        Edit("sdk/ottla/producer/targets.py", "            self.updater.follow([topic])", "            pass"),
    ),
    Story(
        "mirror-of-a-topic-that-has-grown",
        "A mirror could not write to the new partitions of a copy for as long as its metadata was fresh",
        Edit("sdk/ottla/producer/byte_sending.py", "            self._topics.refresh(topic)\n", ""),
    ),
    Story(
        "mirror-that-translated-ahead",
        "While a mirror copied again what its predecessor had, offsets translated to behind records copied once alone",
        Edit(
            "services/mirror/ottla_mirror/machines/offset_map.py",
            "if source + length >= self.end:",
            "if True:",
        ),
    ),
    Story(
        "mirror-that-took-its-own-table-for-a-copy",
        "A mirror of all topics took what it has in the target for copies, found no source of them, and copied nothing",
        Edit(
            "services/mirror/ottla_mirror/machines/topic_names.py",
            "return None if copy in (self.checkpoints, self.state, self.offset_syncs) else copy",
            "return copy",
        ),
    ),
    Story(
        "mirror-whose-own-topic-was-a-copy-to-kafkas-client",
        "Kafka's MirrorClient listed the topic of a mirror's orders as a copy, and MirrorMaker 2 would have copied it",
        Edit(
            "services/mirror/ottla_mirror/machines/topic_names.py",
            'self._internal_name("mm2-mirror", self._flow.source)',
            'self._internal_name(self._flow.source, "mirror")',
        ),
    ),
)
