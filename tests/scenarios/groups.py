"""The commands of stories of groups: one shard, its log, coordinators that own it in turn, and clients of group `g`.

coordinators 1 2 [delay=3s max-size=2]  1 is given the shard, and serves it; `delay` is the initial rebalance delay
join a [instance=i] [id-required] [session=10s] [rebalance=60s] [protocols=range,sticky] [topics=t]
                                     client a joins by the member id that it knows; it remembers what it is answered
  [owns=0,1]                         it tells the others which partitions of t it owns (KIP-429)
sync a [a=0 b=1,2]                   a synchronizes; as the leader with partitions of t for each client
heartbeat a, leave a, forget a       a's session; it leaves; or its process is gone, and a new one knows no member id
commit a 5 [generation=1] [simple]   offset 5 of t-0, in the generation that a knows; simple: without a member
  [partition=1]                      … of another partition of t
  [producer=7]                       … in a transaction of producer 7. It commits once more when the txn-coordinator
                                     knows of the group
end 7                                the transaction of producer 7 is committed
offsets                              what is committed
… to=1                               any request may go to another coordinator than the one that was given the shard
pass 10s                             time passes for all that run
give 2                               the controller gives the shard to 2 under the next epoch; 2 hears of it
hear 1                               1 hears who has the shard now
stop 1, resume 1, kill 1             SIGSTOP and SIGCONT of a coordinator, which is a gap in its clock; SIGKILL
late, in-time                        what is appended from now on is not committed; it is, and what waited with it
lose                                 the answer of the next call to the log is lost
delete                               the group is deleted by an admin
show, log                            the group as its coordinator has it; the shard's log
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from batches import NOON
from groups import EveryTopic, KnownTopics

from ottla_core.coordination.append_round import ShardRequest
from ottla_core.coordination.batches import read_batches
from ottla_core.coordination.effects import (
    Effect,
    Leave,
    Perform,
    ReportTrouble,
    Respond,
    RespondError,
    Send,
    ShardLimits,
)
from ottla_core.coordination.memory_log import MemoryShardLog
from ottla_core.coordination.owner import Owner
from ottla_core.coordination.phases import Phase
from ottla_core.coordination.shard import Decide, Marker, ShardDecision, TransactionProducer
from ottla_core.coordination.shard_log import Append, Appended, Result, Unknown
from ottla_core.coordination.timers import LoopClock, Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    MemberAssignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_core.records.batch import read_header
from ottla_core.records.fence import ShardFence
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.dispatch import (
    decide_heartbeat_request,
    decide_join_request,
    decide_leave_request,
    decide_sync_request,
)
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import Happened
from ottla_group_coordinator.machines.membership import CallerIdentity, GroupSettings, Join, Sync
from ottla_group_coordinator.machines.offsets import NO_GENERATION, ToCommit, decide_commit, decide_delete_group
from ottla_group_coordinator.machines.records import GroupKey, Key, OffsetKey, decode_group, decode_key, decode_offset
from ottla_group_coordinator.machines.responses import Joined, MemberIdRequiredError, Synced
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.machines.transactions import Guard

GROUP: Final = "g"
SHARD: Final = 0
LIMITS: Final = ShardLimits(unproved_s=2.0, append_s=5.0, retry_s=0.1, retry_most_s=1.0)
TOPIC: Final = "t"
TIMED_OUT: Final = OttlaError(ErrorCode.REQUEST_TIMED_OUT, "the log did not respond in time")

Words = list[str]
Options = dict[str, str]


@dataclass
class Client:
    name: str
    member_id: str = ""
    generation: int = NO_GENERATION
    instance_id: str | None = None

    @property
    def identity(self) -> CallerIdentity:
        return CallerIdentity(self.member_id, self.instance_id)


@dataclass(frozen=True)
class Sent:
    """A request on its way: the token by which it is answered."""

    client: Client
    command: str
    number: int


@dataclass
class Process:
    number: int
    clock: LoopClock
    owner: Owner[GroupShard] | None = None
    runs: bool = True
    unanswered: list[tuple[Send, float]] = field(default_factory=list)
    """Appends that are not committed yet, and when they time out."""


class GroupWorld:
    """Runs commands. Each `_do_name` is one; what has changed is told after what it returns."""

    def __init__(self) -> None:
        self._log: Final = MemoryShardLog()
        self._processes: Final[dict[int, Process]] = {}
        self._clients: Final[dict[str, Client]] = {}
        self._settings = GroupSettings()
        self._topics: Final = EveryTopic()
        self._known: Final = KnownTopics(**{TOPIC: 4})
        self._guards: Final[dict[int, Guard]] = {}
        self._lines: list[str] = []
        self._now = 1_000.0
        self._epoch = self._owner = self._numbers = self._losing = 0

    async def run(self, line: str) -> list[str]:
        words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        was = self._state()
        command = getattr(self, f"_do_{words[0].replace('-', '_')}", None)
        if command is None:
            raise SyntaxError(f"there is no command {words[0]!r}")
        command([word for word in words[1:] if "=" not in word], options)
        if (now := self._state()) != was and now:
            self._lines.append(now)
        lines, self._lines = self._lines, []
        await asyncio.sleep(0)
        return lines

    # ---- clients ----------------------------------------------------------------------------------------------------

    def _do_join(self, words: Words, options: Options) -> None:
        client = self._client(words[0])
        client.instance_id = options.get("instance", client.instance_id)
        self._numbers += 1
        topics = options.get("topics", "t").split(",")
        subscription = Subscription(tuple(topics), owned=_partitions(options.get("owns", "")))
        join = Join(
            client.identity,
            f"{client.name}-{self._numbers}",
            f"join-{self._numbers}",
            session_timeout_ms=milliseconds(options.get("session", "10s")),
            rebalance_timeout_ms=milliseconds(options.get("rebalance", "60s")),
            protocol_type="consumer",
            protocols=dict.fromkeys(options.get("protocols", "range").split(","), encode_subscription(subscription)),
            client_id=client.name,
            member_id_required="id-required" in words,
        )
        self._request(client, "join", options, lambda s, now: decide_join_request(s, GROUP, join, now))

    def _do_sync(self, words: Words, options: Options) -> None:
        client = self._client(words[0])
        self._numbers += 1
        assignments = {
            self._client(name).member_id: encode_assignment(MemberAssignment(_partitions(numbers)))
            for name, numbers in options.items()
            if name in self._clients
        }
        generation = _generation(client, options)
        sync = Sync(client.identity, generation, f"sync-{self._numbers}", assignments=assignments)
        self._request(client, "sync", options, lambda s, now: decide_sync_request(s, GROUP, sync, now))

    def _do_heartbeat(self, words: Words, options: Options) -> None:
        for client in map(self._client, words):
            decide = _heartbeat(client.identity, _generation(client, options))
            self._request(client, "heartbeat", options, decide, without_confirmation=True)

    def _do_leave(self, words: Words, options: Options) -> None:
        client = self._client(words[0])
        leavers = [(CallerIdentity("", client.instance_id) if client.instance_id else client.identity, "")]
        self._request(client, "leave", options, lambda s, now: decide_leave_request(s, GROUP, leavers, now))

    def _do_forget(self, words: Words, options: Options) -> None:
        client = self._client(words[0])
        client.member_id, client.generation = "", NO_GENERATION

    def _do_commit(self, words: Words, options: Options) -> None:
        client = self._client(words[0])
        simple = "simple" in words
        generation = NO_GENERATION if simple else _generation(client, options)
        identity = CallerIdentity("") if simple else client.identity
        offsets = [ToCommit(TopicPartition(TOPIC, int(options.get("partition", 0))), int(words[1]), -1, "")]
        producer = TransactionProducer(int(options["producer"]), 0) if "producer" in options else None

        def decide(shard: GroupShard, now: Moment) -> ShardDecision[Any]:
            group = shard.any_group(GROUP) or Group(GROUP)
            is_pending = producer is not None
            plain = decide_commit(
                group, identity, generation, offsets, self._topics, shard.settings, now, in_transaction=is_pending
            )
            if producer is None:
                return plain
            return shard.transactions.decide_commit(producer, plain, self._guards.get(producer.id))

        self._request(client, f"commit of {words[1]}", options, decide)

    def _do_end(self, words: Words, options: Options) -> None:
        marker = Marker(TransactionProducer(int(words[0]), 0), committed=True, coordinator_epoch=1)
        self._request(
            Client(f"producer {words[0]}"),
            "end",
            options,
            lambda s, now: s.transactions.decide_marker(marker, raises_epochs=False),
        )

    def _do_offsets(self, words: Words, options: Options) -> None:
        self._request(Client("admin"), "offsets", options, lambda s, now: ShardDecision(dict(s.offsets(GROUP))))

    def _do_delete(self, words: Words, options: Options) -> None:
        self._request(
            Client("admin"),
            "delete",
            options,
            lambda s, now: decide_delete_group(s.group(GROUP), s.partitions(GROUP)),
        )

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    def _request(
        self,
        client: Client,
        command: str,
        options: Options,
        decide: Decide[GroupShard],
        *,
        without_confirmation: bool = False,
    ) -> None:
        process = self._processes[int(options.get("to", self._owner))]
        sent = Sent(client, command, self._numbers)
        if not process.runs:
            self._lines.append(f"{client.name}: {command}: {process.number} does not answer")
        elif process.owner is None:
            self._lines.append(f"{client.name}: {command}: {process.number} does not own the shard")
        else:
            now = self._moment(process)
            request = ShardRequest(sent, decide, now.at + LIMITS.append_s, without_confirmation)
            self._carry_out(process, process.owner.on_request(request, now))

    # ---- coordinators -----------------------------------------------------------------------------------------------

    def _do_coordinators(self, words: Words, options: Options) -> None:
        self._settings = self._new_settings(options)
        for word in words:
            self._processes[int(word)] = Process(int(word), LoopClock(self._now))
        self._do_give(words[:1], {})

    def _new_settings(self, options: Options) -> GroupSettings:
        return GroupSettings(
            initial_rebalance_delay_ms=milliseconds(options.get("delay", "0s")),
            max_size=int(options.get("max-size", 100)),
        )

    def _do_give(self, words: Words, options: Options) -> None:
        process = self._processes[int(words[0])]
        self._epoch += 1
        self._owner = process.number
        self._lines.append(f"{process.number} is given the shard under epoch {self._epoch}")
        now = self._moment(process)
        if process.owner is not None:
            self._carry_out(process, process.owner.leave("it was assigned again, under a new epoch"))
        fence = ShardFence(self._epoch, 100 + process.number)
        process.owner = Owner(fence, GroupShard(self._settings, self._known), LIMITS, now, lambda: 1.0, lambda: 0.0)
        self._carry_out(process, process.owner.on_start(now))

    def _do_hear(self, words: Words, options: Options) -> None:
        process = self._processes[int(words[0])]
        if process.owner is not None and process.number != self._owner:
            self._carry_out(process, process.owner.leave("it was assigned to another coordinator"))

    def _do_stop(self, words: Words, options: Options) -> None:
        self._processes[int(words[0])].runs = False

    def _do_resume(self, words: Words, options: Options) -> None:
        process = self._processes[int(words[0])]
        process.runs = True
        self._tick(process)

    def _do_kill(self, words: Words, options: Options) -> None:
        process = self._processes[int(words[0])]
        process.runs, process.owner = False, None
        process.unanswered.clear()

    def _do_late(self, words: Words, options: Options) -> None:
        self._log.hold()

    def _do_in_time(self, words: Words, options: Options) -> None:
        self._log.commit()
        for process in self._running():
            sends, process.unanswered = process.unanswered, []
            for send, _ in sends:
                self._send(process, send)

    def _do_lose(self, words: Words, options: Options) -> None:
        self._losing += 1

    def _do_pass(self, words: Words, options: Options) -> None:
        """In steps of a tenth of a second, so that no process that runs sees a gap."""
        until = self._now + milliseconds(words[0]) / 1000
        while self._now < until - 1e-9:
            self._now = min(until, self._now + 0.1)
            for process in self._running():
                self._tick(process)

    def _tick(self, process: Process) -> None:
        now = self._moment(process)
        for send, due in [late for late in process.unanswered if late[1] <= now.at]:
            process.unanswered.remove((send, due))
            if process.owner is not None:
                self._carry_out(process, process.owner.on_result(send.number, Unknown(TIMED_OUT), now))
        if process.owner is not None and process.owner.wake_at <= now.at:
            self._carry_out(process, process.owner.on_tick(now))

    def _running(self) -> list[Process]:
        return [process for process in self._processes.values() if process.runs]

    def _moment(self, process: Process) -> Moment:
        at = process.clock.on_time(self._now)
        if process.clock.gap_s and process.owner is not None:
            process.owner.on_gap(process.clock.gap_s)
        return Moment(at, NOON + round(self._now * 1000))

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _carry_out(self, process: Process, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self._send(process, effect)
                case Respond(sent, response):
                    self._respond(sent, response)
                case RespondError(sent, error):
                    self._respond(sent, error)
                case Perform(performed):
                    self._perform(performed)
                case ReportTrouble(trouble):
                    self._lines.append(f"{process.number} reports: {trouble}")
                case Leave(reason, needs_epoch):
                    asks = ", and asks for another epoch" if needs_epoch else ""
                    self._lines.append(f"{process.number} leaves the shard: {reason}{asks}")

    def _perform(self, effect: Any) -> None:
        if isinstance(effect, Happened):
            for event in effect.events:
                member = f" {event.member_id}" if event.member_id else ""
                self._lines.append(f"  {event.kind.value}{member}: {event.cause}")

    def _send(self, process: Process, send: Send) -> None:
        assert process.owner is not None
        result: Result = self._log.carry_out(SHARD, process.owner.fence, send.call)
        if isinstance(result, Appended) and isinstance(send.call, Append):
            end = result.base_offset + read_header(send.call.batches).record_count
            if result.high_watermark < end:
                process.unanswered.append((send, self._moment(process).at + send.timeout_s))
                return
        if self._losing:
            self._losing -= 1
            self._lines.append(f"the answer of the log to {process.number} is lost")
            result = Unknown(TIMED_OUT)
        was = process.owner.phase
        effects = process.owner.on_result(send.number, result, self._moment(process))
        if process.owner.phase is Phase.SERVING and was is not Phase.SERVING:
            self._lines.append(f"{process.number} serves the shard")
        self._carry_out(process, effects)

    def _respond(self, sent: Sent | None, response: Any) -> None:
        if sent is None:
            return
        client, text = sent.client, f"{sent.client.name}: {sent.command}"
        match response:
            case Joined():
                client.member_id, client.generation = response.member_id, response.generation
                leads = response.leader == response.member_id
                members = f", leads {' '.join(s.member_id for s in response.members)}" if leads else ""
                text += f": {response.member_id} in generation {response.generation}{members}"
                text += ", keeps the assignment" if response.skip_assignment else ""
            case Synced():
                text += f": assigned {_assigned(response.assignment)}"
            case MemberIdRequiredError():
                client.member_id = response.member_id
                text += f": {_error(response)}"
            case OttlaError():
                text += f": {_error(response)}"
            case [OttlaError() as error]:
                text += f": {_error(error)}"
            case Guard():
                self._guards[response.producer_id] = response
                text += ": first the txn-coordinator has to know of the group"
            case dict():
                text += f": {', '.join(f'{p} at {o.offset}' for p, o in response.items()) or 'none'}"
            case _:
                text += ": done"
        self._lines.append(text)

    # ---- what there is ----------------------------------------------------------------------------------------------

    def _state(self) -> str:
        process = self._processes.get(self._owner)
        if process is None or process.owner is None or process.owner.phase is not Phase.SERVING:
            return ""
        group = next((group for group in process.owner.shard.groups() if group.group_id == GROUP), None)
        if isinstance(group, ConsumerGroup):
            return f"g is {group.state.value}, epoch {group.epoch}"
        return "there is no g" if group is None else f"g is {group.state.value}, generation {group.generation}"

    def _do_show(self, words: Words, options: Options) -> None:
        process = self._processes[int(options.get("to", self._owner))]
        assert process.owner is not None
        group = process.owner.shard.group_or_new(GROUP)
        self._lines.append(f"g is {group.state.value}, generation {group.generation}, leader {group.leader or 'none'}")
        for member in group.members.values():
            instance = f" ({member.instance_id})" if member.instance_id else ""
            waits = " joins" if member.joining else " syncs" if member.syncing else ""
            self._lines.append(f"  {member.member_id}{instance}: {_assigned(member.assignment)}{waits}")

    def _do_log(self, words: Words, options: Options) -> None:
        offset = 0
        for batch in read_batches(self._log.stored(SHARD)):
            if batch.fence is not None:
                self._lines.append(f"{offset}: the fence of {batch.fence.incarnation - 100}, epoch {batch.fence.epoch}")
            for n, pair in enumerate(batch.pairs):
                self._lines.append(f"{offset + n}: {self._record(decode_key(pair[0]), pair[1])}")
            offset = batch.next_offset

    def _record(self, key: Key | None, value: bytes | None) -> str:
        if isinstance(key, OffsetKey):
            return f"{key.partition} {'is deleted' if value is None else f'at {decode_offset(value).offset}'}"
        assert isinstance(key, GroupKey)
        if value is None:
            return f"{key.group} is deleted"
        group = decode_group(value)
        members = ", ".join(f"{m.member_id} has {_assigned(m.assignment)}" for m in group.members)
        return f"{key.group} in generation {group.generation}: {members or 'no members'}"


def _generation(client: Client, options: Options) -> int:
    return int(options.get("generation", client.generation))


def _heartbeat(identity: CallerIdentity, generation: int) -> Decide[GroupShard]:
    return lambda shard, now: decide_heartbeat_request(shard, GROUP, identity, generation, now)


def milliseconds(text: str) -> int:
    return round(float(text.removesuffix("s")) * 1000)


def _error(error: OttlaError) -> str:
    return f"{ErrorCode(error.code).name} ({error.code}): {error.message}"


def _partitions(numbers: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(TOPIC, int(number)) for number in numbers.split(",") if number)


def _assigned(assignment: bytes) -> str:
    return ",".join(str(p.partition) for p in decode_assignment(assignment).partitions) or "nothing"
