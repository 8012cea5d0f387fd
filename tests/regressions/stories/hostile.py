"""Memory and connections: neither what a client sends nor what it does not take is in anybody else's way."""

from __future__ import annotations

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_NETWORK = "ottla_broker.kafka.network"
_CONNECTION = f"{_NETWORK}.connection:KafkaConnection"
_BUDGET = f"{_NETWORK}.budget:Budget"
_SMALL, _LARGE = 0, -1
_NO_BOUND = 2**60
_HEAD_BYTES = 8


def _never_waited(original, self, now):
    self._waited_s = -1
    original(self, now)


def _read_without_room(original, replica, offset, max_bytes, limit, room, *, first):
    from ottla_broker.replication.response_memory import UNBOUNDED

    return original(replica, offset, max_bytes, limit, UNBOUNDED, first=first)


def _given_back_first(original, self):
    self._account.give_back_all()
    original(self)


def _let_in_inside_each_other(original, self, looks):
    self._is_letting_in = False
    original(self, looks)


def _keeping_the_frame(original, backend, produce, *rest):
    vars(produce).setdefault("frames", []).append(rest[2])
    return original(backend, produce, *rest)


async def _hides_nothing(original, self, access, response):
    return None


async def _each_alone(original, backend, groups):
    return [[group] for group in groups]


def _when_a_head_is_there(original, self, data, at):
    return original(self, data, at) if len(data) - at >= _HEAD_BYTES else None


STORIES = (
    Story(
        "headers-take-gigabytes",
        "A record of 64 MiB, in a batch of 700 KB, had 33 million headers: a broker held all of them as objects",
        constant("ottla_core.records.walk:PIECE_BYTES", 1 << 30),
    ),
    Story(
        "one-client-fills-what-waits",
        "One connection's large batches filled the room for what waits to be walked, and others' were refused",
        skipped("ottla_broker.kafka.network.budget:Account.pend"),
    ),
    Story(
        "client-gone-behind-what-is-not-read",
        "A client that parked a fetch, sent 256 KB behind it and left held its connection for as long as it liked",
        skipped(f"{_NETWORK}.connection:has_ended", False),
    ),
    Story(
        "announced-bytes-are-held",
        "A client that announced 200 MiB with sixteen bytes had them reserved, and the Kafka listener stopped",
        constant(f"{_NETWORK}.inbound:_ENOUGH", _NO_BOUND),
    ),
    Story(
        "small-requests-wait-for-large-ones",
        "Everybody's ApiVersions and heartbeats waited while large frames and answers filled the memory",
        instead_of(
            f"{_BUDGET}.fits",
            lambda original, self, account, requested: original(self, account, requested or _LARGE),
        ),
    ),
    Story(
        "stranger-announces-100-mib",
        "An unknown connection could send a frame of 100 MiB as its first",
        instead_of(
            f"{_NETWORK}.limits:ConnectionLimits.check_size",
            lambda original, self, key, size_bytes, *, is_known: original(self, key, size_bytes, is_known=True),
        ),
    ),
    Story(
        "frame-that-comes-by-drops",
        "A frame that came a byte at a time was waited for, and held its memory, for seven minutes",
        skipped(f"{_CONNECTION}._is_due", False),
    ),
    Story(
        "one-address-has-all-the-memory",
        "One client with many connections took all the memory that connections may hold",
        constant(f"{_NETWORK}.budget:_ADDRESS_SHARE", _NO_BOUND),
    ),
    Story(
        "one-connection-has-all-the-memory",
        "One connection took all the memory that connections may hold",
        constant(f"{_NETWORK}.budget:_CONNECTION_SHARE", _NO_BOUND),
    ),
    Story(
        "frames-that-can-not-end-wait-for-ever",
        "Frames that filled the memory together waited for each other, and none could end",
        instead_of(f"{_CONNECTION}.on_tick", _never_waited),
    ),
    Story(
        "frame-that-needs-little-can-not-end",
        "A frame that had nearly arrived waited for room behind all others, and held its memory meanwhile",
        instead_of(
            f"{_BUDGET}.fits",
            lambda original, self, account, requested: original(
                self, account, requested if requested == _SMALL else _LARGE
            ),
        ),
    ),
    Story(
        "fetch-reads-more-than-there-is-room-for",
        "230 consumers that stopped reading kept everybody waiting for 20 s: fetches read however full the memory was",
        instead_of("ottla_broker.replication.fetch:_read_records", _read_without_room),
    ),
    Story(
        "lent-room-is-given-back-too-early",
        "The room that an answer had borrowed was free before the answer counted, and others were let in for it",
        instead_of(f"{_CONNECTION}._hold", _given_back_first),
    ),
    Story(
        "let-in-inside-each-others-calls",
        "Waiting connections let each other in inside their own calls, deeper than Python allows",
        instead_of(f"{_BUDGET}._let_in", _let_in_inside_each_other),
    ),
    Story(
        "produce-pins-its-frame",
        "A produce that waited for acks=all kept its whole frame, uncounted: 320 MB while a follower hung",
        instead_of("ottla_broker.kafka.handlers.produce:_append", _keeping_the_frame),
    ),
    Story(
        "refusal-pins-the-frame",
        "The traceback of a refused partition's error kept the frame for as long as other partitions waited",
        instead_of("ottla_broker.replication.produce:without_traces", lambda original, error: error),
    ),
    Story(
        "unary-calls-without-a-bound",
        "Unary gRPC calls held up to 32 MiB each, and their number had no bound",
        skipped("ottla_core.rpc.calls:Calls._reject"),
    ),
    Story(
        "admin-port-without-a-bound",
        "Each connection of the admin port had a thread, and anybody could open any number",
        skipped("ottla_core.process.admin_http:_Server._close"),
    ),
    Story(
        "one-connections-bug-ends-all-limits",
        "One connection's failing tick ended the limits of all connections of the listener",
        instead_of(
            f"{_NETWORK}.listener:Listener._tick_one",
            lambda original, self, connection, now: connection.on_tick(now),
        ),
    ),
    Story(
        "waiting-requests-without-a-bound",
        "The requests that a coordinator's shards kept waiting had no bound in bytes",
        instead_of(
            "ottla_core.coordination.runtime:OwnedShards.begin",
            lambda original, self, shard, decide, **options: original(
                self, shard, decide, **{**options, "size_bytes": 0}
            ),
        ),
    ),
    Story(
        "repeated-resources-all-described",
        "AlterConfigs that named a broker 9,000 times had its configs described as often, which took minutes",
        skipped("ottla_broker.kafka.handlers.alter_configs:named_twice", {}),
    ),
    Story(
        "warned-of-who-went-at-once",
        "A client that left before its request had begun left a warning of an unawaited coroutine in the broker's log",
        instead_of(f"{_NETWORK}.connection:_end", lambda original, response: response.cancel()),
    ),
    Story(
        "frames-that-never-began-held-their-bytes",
        "A frame that was read as its client left never gave back its share of its method's bytes in flight",
        instead_of(
            "ottla_core.rpc.streams:_ServedStream._on_over",
            lambda original, self, in_flight, task: self._tasks.pop(task, None),
        ),
    ),
    Story(
        "private-response-names-hidden-topics",
        "The lag of a group named the topics of its offsets, also to clients that may not describe these topics",
        instead_of("ottla_broker.kafka.authorization.private_needs:ShownTopics.hide", _hides_nothing),
    ),
    Story(
        "one-address-crowds-out-the-others",
        "While one address sent 302 TLS hellos a second, other addresses got three logins in 12 seconds",
        instead_of(f"{_NETWORK}.by_host:ByHost.add", lambda original, self, host, item: original(self, "", item)),
    ),
    Story(
        "frame-of-no-bytes-stays-open",
        "A connection whose first frame claimed to have no bytes stayed open",
        instead_of(f"{_CONNECTION}._head_at", _when_a_head_is_there),
    ),
    Story(
        "each-described-group-is-a-call",
        "DescribeGroups of 90,000 names took 42 s of CPU time, because each was a call to its coordinator",
        instead_of("ottla_broker.kafka.forwarding.described_groups:_by_shard", _each_alone),
    ),
)
