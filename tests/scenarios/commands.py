"""The commands of stories. Brokers are named by their numbers; every command tells what came of it.

cluster 3 [topic-config=value …]      brokers 1 to 3 with one partition of `t`, led by 1 in epoch 0
append 1 a b [acks=all|1|0] [producer=7 seq=0 epoch=0]
                                      one batch to broker 1; the answer is told when it comes
fetch 2 3 from 1                      2 fetches once from 1, then 3 does; without `from`, from whom they follow
deliver [to 2 3]                      the metadata of now reaches these brokers, or all that run
tick 31s                              time passes: leaders look who lags, high watermarks are checkpointed
propose 1 [lost=request|answer]       1 sends the controller the ISR that it proposes; the wire may lose either way
reconcile, elect [preferred|unclean]  the controller looks after the partition; an election by command
recover                               where the metadata can't tell who should lead, the logs are asked
configure topic-config=value …        the controller alters the topic's configs
backup, restore [undeclared]          the metadata store is backed up; and has what the backup has, declared as such
begin COMMAND … commit                the controller decides, and its transaction is held on its way until `commit`
expire 1                              the registration of 1 goes: its lease ended, or its death was proven
shutdown 1                            1 tells the controller that it goes, and serves on (controlled shutdown)
stop 1, resume 1                      SIGSTOP and SIGCONT; what is sent meanwhile waits in the socket
kill 1, close 1                       the process ends: at once, or clean
start 1 [lost-tail=2]                 a new process, not registered yet; lost-tail: the machine went down, too, and
                                      the last batches were not on the platter
start 1 empty, start 1 without-logs   … whose disk was lost: the directory is new; or only its partitions were
save 1 … start 1 old                  … whose volume is a copy that was made at `save`
register 1, unfence 1                 the steps by which a broker gets its seat (rule 22)
rejoin 1 [as start]                   start, register, deliver, unfence, deliver: all that a restart takes
full 1, room 1                        the disk of 1 takes no appends any more, or takes them again; it says so
latest 1                              ListOffsets: where does the partition end?
show                                  all brokers; committed: what consumers read, and whether promises were kept
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from replicas import PARTITION
from tests.scenarios.node import Node, State
from tests.scenarios.telling import changes, differences, partition_line, role, seen, table
from tests.scenarios.world import Produce, World, listed, records_in

from ottla_broker.replication.leading import ACKS_ALL
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER
from ottla_core.rpc.context import RequestContext
from ottla_proto import broker_pb2 as pb
from ottla_proto import controller_pb2
from ottla_proto.common_pb2 import Error

_ACKS: Final = {"all": ACKS_ALL, "1": 1, "0": 0}
_ELECTIONS: Final = {"preferred": controller_pb2.ELECTION_PREFERRED, "unclean": controller_pb2.ELECTION_UNCLEAN}

Words = list[str]
Options = dict[str, str]


class Interpreter:
    """Runs commands in a world. Each `_do_name` is a command; what it returns is told before what it has changed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._begun: asyncio.Task[list[str]] | None = None

    async def run(self, line: str) -> list[str]:
        """One command; what it came to, in lines. Raises SyntaxError for what is none."""
        words, options = _parsed(line)
        world, controller = self._world, self._world.controller
        was = {node.id: seen(node) for node in world.nodes.values()}
        partition = controller.partition if world.nodes else None
        lines = await self._carry_out(words, options)
        await world.rest()
        lines += [f"the transaction came too late, {key} has changed: decided anew" for key in controller.lost_races]
        controller.lost_races.clear()
        if partition is not None and controller.partition != partition:
            lines.append(partition_line(controller.partition))
        for node in world.nodes.values():
            lines += changes(node.id, was.get(node.id), seen(node))
        return [*lines, *self._answers()]

    async def _carry_out(self, words: Words, options: Options) -> list[str]:
        command = getattr(self, f"_do_{words[0]}", None)
        if command is None:
            raise SyntaxError(f"there is no command {words[0]!r}")
        lines: list[str] = await command(words[1:], options)
        return lines

    def _answers(self) -> Iterator[str]:
        for sent, answer in self._world.take_answered():
            if not sent.acks:
                yield f"{sent}: no answer, as asked for"
            elif answer.error is not None:
                yield f"{sent}: {_error(answer.error)}"
            else:
                yield f"{sent}: acknowledged at {answer.base_offset}"

    def _nodes(self, words: Words) -> list[Node]:
        return [self._world.nodes[int(word)] for word in words]

    # ---- clients ----------------------------------------------------------------------------------------------------

    async def _do_append(self, words: Words, options: Options) -> list[str]:
        [node] = self._nodes(words[:1])
        sent = Produce(node.id, tuple(words[1:]), _ACKS[options.get("acks", "all")])
        if "producer" in options:
            producer = (int(options["producer"]), int(options.get("epoch", 0)), int(options["seq"]))
            sent = replace(sent, producer=producer)
        return await self._produce(node, sent)

    async def _produce(self, node: Node, sent: Produce) -> list[str]:
        if node.state is State.DOWN:
            return [f"{sent}: nobody answers at {node.id}"]
        end = node.replica.log.log_end_offset
        self._world.produce(sent)
        if node.state is State.STOPPED:
            return [f"{sent}: waits in the socket of {node.id}, which is stopped"]
        await self._world.rest()
        grown = node.replica.log.log_end_offset > end
        return [f"{node.id} appends {sent} at {end}" if grown else f"{node.id} appends nothing"]

    async def _do_latest(self, words: Words, options: Options) -> list[str]:
        [node] = self._nodes(words)
        asked = pb.ListOffsetsPartition(topic_id=PARTITION.topic_id, timestamp_ms=-1)
        response = await node.service.list_offsets(pb.ListOffsetsRequest(partitions=[asked]), RequestContext())
        answer = response.partitions[0]
        return [f"{node.id}: {_error(answer.error)}" if answer.error.code else f"{node.id}: {answer.offset}"]

    async def _do_committed(self, words: Words, options: Options) -> list[str]:
        """What consumers read from the leader, and whether all is there that was promised."""
        world, leader = self._world, self._world.controller.partition.leader
        if leader == NO_LEADER:
            return ["nobody leads"]
        node = world.nodes[leader]
        try:
            read = [record.value for record in records_in(await node.consume())]
        except OttlaError as error:
            return [f"{leader}: {_error(error)}"]
        log = [record.value for record in world.replica_records(node)]
        lost = [value for value in world.promised if value not in log]
        twice = sorted({value for value in log if log.count(value) > 1})
        return [
            f"consumers read from {leader}: {' '.join(read) or 'nothing'}",
            f"acknowledged by all: {' '.join(world.promised) or 'nothing'}" + ("" if lost else "; all of it is there"),
            *([f"LOST: {' '.join(lost)}"] if lost else []),
            *([f"TWICE: {' '.join(twice)}"] if twice else []),
            *differences(world),
        ]

    # ---- between brokers --------------------------------------------------------------------------------------------

    async def _do_fetch(self, words: Words, options: Options) -> list[str]:
        at = words.index("from") if "from" in words else len(words)
        lines: list[str] = []
        for node in self._nodes(words[:at]):
            followed = node.replica.leader_id
            leader = int(words[at + 1]) if at < len(words) else followed
            if leader is None:
                lines.append(f"{node.id} follows nobody")
            else:
                lines.append(await self._fetch(node, self._world.nodes[leader]))
        return lines

    async def _fetch(self, node: Node, leader: Node) -> str:
        if node.state is not State.RUNS:
            return f"{node.id} does not run"
        if leader.state is not State.RUNS:
            return f"{node.id} gets no answer from {leader.id}"
        asked_epoch = node.replica.log.epochs.latest
        try:
            answer = await node.fetch_from(leader)
        except OttlaError as error:
            return f"{node.id} from {leader.id}: {_error(error)}"
        if answer.HasField("diverging_epoch"):
            end = answer.diverging_epoch
            return (
                f"{node.id} hears from {leader.id} that their logs part: its last epoch is {asked_epoch}, and there "
                f"epoch {end.leader_epoch} ends at {end.end_offset}"
            )
        records = " ".join(map(str, records_in(answer.records)))
        return f"{node.id} gets {records or 'nothing new'} from {leader.id}"

    async def _do_deliver(self, words: Words, options: Options) -> list[str]:
        nodes = self._nodes(words[1:]) if words else self._world.running()
        for node in nodes:
            if node.state is not State.RUNS:
                raise SyntaxError(f"broker {node.id} does not run, and hears of nothing")
            await node.hear(self._world.controller.image)
        return []

    async def _do_tick(self, words: Words, options: Options) -> list[str]:
        self._world.clock.advance(float(words[0].removesuffix("s")))
        for node in self._world.running():
            node.pass_time()
        return []

    # ---- the controller ---------------------------------------------------------------------------------------------

    async def _do_propose(self, words: Words, options: Options) -> list[str]:
        [node] = self._nodes(words)
        if node.proposal is None:
            return [f"{node.id} proposes nothing"]
        asked = f"{node.id} asks for the ISR {listed(node.proposal.isr)}"
        node.line.lost = options.get("lost", "")
        try:
            await node.propose()
        except OttlaError as error:
            return [f"{asked}: {_error(error)}"]
        answer = node.line.answer
        if answer is None:
            return [f"{node.id} sends nothing: it has its answer, and waits for metadata"]
        return [f"{asked}: {_error(answer.error) if answer.error.code else 'granted'}"]

    async def _do_reconcile(self, words: Words, options: Options) -> list[str]:
        moved = await self._world.controller.reconcile()
        return ["the election is unclean" for settled in moved if settled.unclean]

    async def _do_recover(self, words: Words, options: Options) -> list[str]:
        if self._world.controller.image.is_behind:
            await self._world.controller.declare_restored()
            return ["the metadata is older than the logs"]
        asked = self._world.controller.to_ask()
        if not asked:
            return ["nobody is asked"]
        reports = {broker_id: await self._world.nodes[broker_id].report() for broker_id in asked}
        ends = {broker_id: report.ends[PARTITION] for broker_id, report in reports.items()}
        told = [f"{b} ends at {end.offset}, in epoch {end.last_epoch}" for b, end in ends.items()]
        moved = await self._world.controller.recover(reports)
        return [*told, *(["the longest log leads"] if moved else ["that proves too little"])]

    async def _do_configure(self, words: Words, options: Options) -> list[str]:
        return [_error(error) for error in await self._world.controller.configure(options)]

    async def _do_backup(self, words: Words, options: Options) -> list[str]:
        self._world.controller.back_up()
        return []

    async def _do_restore(self, words: Words, options: Options) -> list[str]:
        self._world.controller.restore()
        if words != ["undeclared"]:
            await self._world.controller.declare_restored()
        return []

    async def _do_save(self, words: Words, options: Options) -> list[str]:
        for node in self._nodes(words):
            node.save()
        return []

    async def _do_elect(self, words: Words, options: Options) -> list[str]:
        answer = await self._world.controller.elect(_ELECTIONS[words[0] if words else "preferred"])
        return [_error(answer.error)] if answer.error.code else []

    async def _do_shutdown(self, words: Words, options: Options) -> list[str]:
        [node] = self._nodes(words)
        await self._world.controller.shut_down(node.id, node.broker_epoch, node.secret)
        return [f"{node.id} is shutting down"]

    async def _do_begin(self, words: Words, options: Options) -> list[str]:
        if self._begun is not None:
            raise SyntaxError("something is on its way already")
        self._world.controller.hold()
        self._begun = asyncio.create_task(self._carry_out(words, options))
        await self._world.rest()
        return [f"{words[0]}: decided, and on its way"]

    async def _do_commit(self, words: Words, options: Options) -> list[str]:
        begun, self._begun = self._begun, None
        if begun is None:
            raise SyntaxError("nothing is on its way")
        self._world.controller.let_go()
        return await begun

    # ---- processes --------------------------------------------------------------------------------------------------

    async def _do_cluster(self, words: Words, options: Options) -> list[str]:
        await self._world.create(int(words[0]), options)
        return [partition_line(self._world.controller.partition)]

    async def _do_expire(self, words: Words, options: Options) -> list[str]:
        for node in self._nodes(words):
            self._world.controller.put(("broker", node.id), None)
        return [f"{node.id} is not registered any more" for node in self._nodes(words)]

    async def _do_stop(self, words: Words, options: Options) -> list[str]:
        for node in self._nodes(words):
            node.state = State.STOPPED
        return [f"{word} is stopped" for word in words]

    async def _do_resume(self, words: Words, options: Options) -> list[str]:
        [node] = self._nodes(words)
        node.state = State.RUNS
        lines = [f"{node.id} goes on"]
        for sent in self._world.take_from_socket(node.id):
            lines += await self._produce(node, sent)
        return lines

    async def _do_kill(self, words: Words, options: Options) -> list[str]:
        return await self._end(words, "is killed", clean=False)

    async def _do_close(self, words: Words, options: Options) -> list[str]:
        return await self._end(words, "is closed", clean=True)

    async def _end(self, words: Words, what: str, *, clean: bool) -> list[str]:
        lines: list[str] = []
        for node in self._nodes(words):
            unanswered = await self._world.cut_off(node.id)
            await node.end(clean=clean)
            lines += [f"{node.id} {what}", *(f"{sent}: the connection broke" for sent in unanswered)]
        return lines

    async def _do_start(self, words: Words, options: Options) -> list[str]:
        [node] = self._nodes(words[:1])
        if words[1:] == ["empty"]:
            node.lose_disk()
        elif words[1:] == ["without-logs"]:
            node.lose_logs()
        elif words[1:] == ["old"]:
            node.take_saved()
        if "lost-tail" in options:
            node.lose_tail(int(options["lost-tail"]))
        await node.start()
        now = seen(node)
        assert now is not None
        doubt = ", and may have lost records" if node.log_dir.may_have_lost_tail else ""
        found = f"{now.end} records, high watermark {now.high_watermark}"
        return [f"{node.id} starts with {found}{doubt}", f"{node.id} {role(now)}"]

    async def _do_register(self, words: Words, options: Options) -> list[str]:
        lines = []
        for node in self._nodes(words):
            broker = node.register()
            unclean = ", unclean" if broker.unclean else ""
            lines.append(f"{node.id} is registered with broker epoch {broker.epoch}: fenced{unclean}")
        return lines

    async def _do_unfence(self, words: Words, options: Options) -> list[str]:
        lines = []
        for node in self._nodes(words):
            why_not = node.unfence()
            lines.append(f"{node.id} stays fenced: {why_not}" if why_not else f"{node.id} is unfenced")
        return lines

    async def _do_full(self, words: Words, options: Options) -> list[str]:
        for node in self._nodes(words):
            node.fill_disk("No space left on device")
        return [f"{word} has a full disk" for word in words]

    async def _do_room(self, words: Words, options: Options) -> list[str]:
        for node in self._nodes(words):
            node.fill_disk("")
        return [f"{word} has room again" for word in words]

    async def _do_rejoin(self, words: Words, options: Options) -> list[str]:
        lines = [*await self._do_start(words, options), *await self._do_register(words[:1], {})]
        await self._do_deliver([], {})
        lines += await self._do_unfence(words[:1], {})
        await self._do_deliver([], {})
        return lines

    async def _do_show(self, words: Words, options: Options) -> list[str]:
        return table(self._world)


def _parsed(line: str) -> tuple[Words, Options]:
    words = line.split()
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return [word for word in words if "=" not in word], options


def _error(error: OttlaError | Error) -> str:
    """Kafka's name, code and the message; without the hint, which the wire has behind the message."""
    return f"{ErrorCode(error.code).name} ({error.code}): {error.message.partition('; ')[0]}"
