"""Memory and connections: what one client sends, or does not take, is in nobody else's way."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "client-gone-behind-what-is-not-read",
        "A client that parked a fetch, sent 256 KB behind it and went held its connection for as long as it had liked",
        Edit(
            "services/broker/ottla_broker/kafka/network/connection.py",
            "elif self._open and not self._reading and self._transport is not None and has_ended(self._transport):",
            "elif False:",
        ),
    ),
    Story(
        "announced-bytes-are-held",
        "Sixteen bytes that announced 200 MiB stopped a broker's Kafka listener: what was announced was held",
        Edit(
            "services/broker/ottla_broker/kafka/network/inbound.py",
            "return self._filled * _ENOUGH >= self.whole_bytes and missing_bytes",
            "return missing_bytes",
        ),
    ),
    Story(
        "small-requests-wait-for-large-ones",
        "ApiVersions and heartbeats of everybody waited as long as large frames and answers filled the memory",
        Edit(
            "services/broker/ottla_broker/kafka/network/budget.py",
            "        if requested == SMALL:\n"
            "            return self.held_bytes - account.held_bytes < self._max_bytes\n",
            "",
        ),
    ),
    Story(
        "stranger-announces-100-mib",
        "A connection that nobody knew anything of could send a frame of 100 MiB",
        Edit("services/broker/ottla_broker/kafka/network/limits.py", "limit = min(limit, self.max_first)", "pass"),
    ),
    Story(
        "frame-that-comes-by-drops",
        "A frame that came a byte at a time was waited for, and held what it held, for seven minutes",
        Edit(
            "services/broker/ottla_broker/kafka/network/connection.py",
            "elif self._is_due and self._pace.is_too_slow():",
            "elif self._waited_s < 0:",
        ),
    ),
    Story(
        "one-address-has-all-the-memory",
        "One client with many connections took all that connections may hold",
        Edit(
            "services/broker/ottla_broker/kafka/network/budget.py",
            "            (_ADDRESS_SHARE * free - account.address.held_bytes) // (_ADDRESS_SHARE + 1),\n",
            "            free,\n",
        ),
    ),
    Story(
        "one-connection-has-all-the-memory",
        "One connection took all that connections may hold",
        Edit(
            "services/broker/ottla_broker/kafka/network/budget.py",
            "            (_CONNECTION_SHARE * free - account.held_bytes) // (_CONNECTION_SHARE + 1),\n",
            "            free,\n",
        ),
    ),
    Story(
        "frames-that-can-not-end-wait-for-ever",
        "Frames that filled the memory together, none of which could end, waited for each other",
        Edit(
            "services/broker/ottla_broker/kafka/network/connection.py",
            "if self._waited_s > limits.room_s:",
            "if self._waited_s < 0:",
        ),
    ),
    Story(
        "frame-that-needs-little-can-not-end",
        "A frame that was nearly there waited for room behind all others, and held what it had",
        Edit(
            "services/broker/ottla_broker/kafka/network/budget.py",
            "        if not 0 < requested <= self._for_ends - self._promised_bytes:\n            return False\n",
            "        if requested or not requested:\n            return False\n",
        ),
    ),
    Story(
        "fetch-reads-more-than-there-is-room-for",
        "230 consumers that stopped reading kept everybody waiting for 20 s: fetches read whatever was held already",
        Edit(
            "services/broker/ottla_broker/replication/fetch.py",
            "replica.read(offset, lent_bytes, limit, min_one_batch=first)",
            "replica.read(offset, max_bytes, limit, min_one_batch=first)",
        ),
    ),
    Story(
        "lent-room-is-given-back-too-early",
        "Room that an answer was lent was free before the answer counted, so others were let in for it",
        Edit(
            "services/broker/ottla_broker/kafka/network/connection.py",
            "        self._hold()\n"
            "        self._account.give_back_all()  # after what of the responses is not taken was counted\n",
            "        self._account.give_back_all()\n        self._hold()\n",
        ),
    ),
    Story(
        "let-in-inside-each-others-calls",
        "Connections that waited let each other in inside of their calls, deeper than Python allows",
        Edit(
            "services/broker/ottla_broker/kafka/network/budget.py",
            "        if not self._is_letting_in:\n",
            "        if self._looks:\n",
        ),
    ),
    Story(
        "produce-pins-its-frame",
        "A produce that waited for acks=all kept its whole frame, which nothing counted: 320 MB while a follower hung",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/produce.py",
            "    caller: Caller\n    acks: int\n",
            "    caller: Caller\n    acks: int\n    kept: object\n",
        ),
        Edit(
            "services/broker/ottla_broker/kafka/handlers/produce.py",
            "context.caller, acks)\n    if produce",
            "context.caller, acks, context)\n    if produce",
        ),
    ),
    Story(
        "refusal-pins-the-frame",
        "A refused partition's error kept, by its traceback, the frame for as long as other partitions waited",
        Edit(
            "services/broker/ottla_broker/replication/produce.py",
            "result.error = without_traces(error)",
            "result.error = error",
        ),
    ),
    Story(
        "late-partition-stops-produces-over-grpc",
        "Produces over gRPC that waited for one late partition stopped those to all partitions of the broker",
        Edit(
            "services/broker/ottla_broker/service.py",
            "            context.in_flight.let_go()  # one",
            "            # one",
        ),
    ),
    Story(
        "frame-that-is-let-go-counts-still",
        "A frame that only waits held the room of its bytes",
        Edit("core/ottla_core/rpc/budget.py", "size_bytes, self._bytes = self._bytes, 0", "size_bytes = 0"),
    ),
    Story(
        "unary-calls-without-a-bound",
        "Unary gRPC calls held up to 32 MiB each, and nothing said how many there may be",
        Edit(
            "core/ottla_core/rpc/calls.py",
            "if self.open >= MAX_CALLS or self.bytes + size_bytes > limit:",
            "if self.open < 0 or size_bytes > limit:",
        ),
    ),
    Story(
        "admin-port-without-a-bound",
        "Each connection of the admin port had a thread, as many as somebody opened",
        Edit("core/ottla_core/admin_http.py", "if len(self._open) >= _MAX_CONNECTIONS:", "if len(self._open) < 0:"),
    ),
    Story(
        "one-connections-bug-ends-all-limits",
        "One connection's failing tick ended the limits of all connections of the listener",
        Edit(
            "services/broker/ottla_broker/kafka/network/listener.py",
            "                try:\n"
            "                    connection.on_tick(now)\n"
            "                except Exception:  # one connection's bug must not keep the others from their limits\n"
            '                    _log.exception("the tick of a Kafka connection failed")\n'
            "                    connection.abort()\n",
            "                connection.on_tick(now)\n",
        ),
    ),
    Story(
        "waiting-requests-without-a-bound",
        "What a coordinator's shards kept waiting had no bound in bytes",
        Edit(
            "core/ottla_core/coordination/runtime.py",
            "elif self._waiting_bytes + size_bytes > self.limits.max_waiting_bytes:",
            "elif self._waiting_bytes < 0:",
        ),
    ),
    Story(
        "repeated-resources-all-described",
        "AlterConfigs that named a broker 9,000 times had its configs described as often, which took minutes",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/alter_configs.py",
            "[r for r in request.resources if (r.resource_type, r.resource_name) not in twice]",
            "list(request.resources)",
        ),
    ),
    Story(
        "warned-of-who-went-at-once",
        "Who went before its request had begun left a warning of a coroutine that nobody awaited in the broker's log",
        Edit(
            "services/broker/ottla_broker/kafka/network/connection.py",
            "                _end(entry.response)\n",
            "                entry.response.cancel()\n",
        ),
    ),
    Story(
        "frames-that-never-began-held-their-bytes",
        "A frame that was read as its client went never gave back its part of what all streams of its method may hold",
        Edit(
            "core/ottla_core/rpc/streams.py",
            "task.add_done_callback(partial(self._on_over, in_flight))",
            "task.add_done_callback(self._tasks.discard)",
        ),
        Edit(
            "core/ottla_core/rpc/streams.py",
            "log_bug(self._endpoint.method.name, self._context.request_id, error)))\n",
            "log_bug(self._endpoint.method.name, self._context.request_id, error)))\n"
            "        finally:\n"
            "            in_flight.end()\n",
        ),
    ),
)
