"""The shard's partition: three replicas, of which one leads, or two for a while without knowing of each other.

It keeps the broker's rules (docs/design/replication.md) with the broker's own comparison of fence and offset
(ottla_broker.machines.shard). A follower tells what it has by its next fetch; the high watermark is what every member
of the leader's ISR has told; two members are the least. The ISR and the elections are the controller's, heard of late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.simulation.schedule import Schedule

from ottla_broker.machines.shard import NO_FENCE, StoredFence, check_owner, find_append_offset, mismatch
from ottla_core.coordination.shard_log import Appended, Batches, Confirmed, Result, Unknown, result_of
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import headers_at, placed_prefix
from ottla_core.records.fence import ShardFence, fence_of

MIN_ISR: Final = 2
LAG_MAX_S: Final = 0.5
READ_BATCHES: Final = 4
NOBODY: Final = -1
TAKES_NOTHING: Final = "it is too large for now"

Response = Callable[[Result], None]


class Stored(NamedTuple):
    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    data: bytes
    fence: ShardFence | None
    life: int  # of the owner that sent it; the broker does not know it, the checker does
    sent_twice: bool  # by the network, which no transport of ours does


class Waiting(NamedTuple):
    end: int
    response: Response
    base_offset: int


class Asked(NamedTuple):
    at: float
    owner: ShardFence
    next_offset: int
    response: Response


class Word(NamedTuple):
    """What the controller says of the partition."""

    version: int
    epoch: int
    leader: int
    isr: frozenset[int]


class Replica:
    """A broker's copy. What is in `log` survives the process; who waits does not."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.log: list[Stored] = []
        self.fences: list[StoredFence] = []
        self.high_watermark = 0
        self.up = True
        self.deaf_until = 0.0
        self.epoch = 0  # of the leader that it knows of
        self.version = 0
        self.leader = 0
        self.fetched_at = -1.0  # when its last fetch was sent
        self.become_follower()

    def become_follower(self) -> None:
        self.isr: frozenset[int] = frozenset()
        self.wished: set[int] = set()  # members that the controller is asked for; they count already
        self.told: dict[int, int] = {}  # by followers: their log ends
        self.told_at: dict[int, float] = {}
        self.waiting: list[Waiting] = []
        self.asked: list[Asked] = []
        self.parked: dict[int, int] = {}  # fetches that found nothing new, with the high watermark that was known

    @property
    def leads(self) -> bool:
        return self.up and self.leader == self.number

    @property
    def end(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    @property
    def fence(self) -> StoredFence:
        return self.fences[-1] if self.fences else NO_FENCE

    def put(self, batch: Stored) -> None:
        self.log.append(batch)
        if batch.fence is not None:
            self.fences.append(StoredFence(batch.fence, batch.base_offset))

    def cut_to(self, length: int) -> None:
        """Keep so many batches."""
        del self.log[length:]
        while self.fences and self.fences[-1].offset >= self.end:
            self.fences.pop()
        self.high_watermark = min(self.high_watermark, self.end)

    def common(self, other: Replica) -> int:
        """How many first batches both have: logs that agree at one place agree before it."""
        length = min(len(self.log), len(other.log))
        while length and self.log[length - 1] is not other.log[length - 1]:
            length -= 1
        return length

    def find(self, offset: int) -> Stored:
        return next(batch for batch in reversed(self.log) if batch.base_offset <= offset)


class Partition:
    """All replicas, and the controller's word on them. Mutants override the rules that they break."""

    def __init__(self, schedule: Schedule, on_committed: Callable[[Replica], None]) -> None:
        self.schedule: Final = schedule
        self.replicas: Final = [Replica(n) for n in range(3)]
        self.leader = 0
        self.epoch = 0
        self.version = 0
        self.isr = {0, 1, 2}
        self.delay_s = 0.002
        self.deafness = 0.2
        self.loss = 0.0
        self.takes_nothing_until = 0.0  # by a topic's config, say
        self._on_committed: Final = on_committed
        self.replicas[0].isr = frozenset(self.isr)

    # ---- what owners ask ------------------------------------------------------------------------------------------

    def on_append(
        self,
        replica: Replica,
        owner: ShardFence,
        expected: int,
        batches: bytes,
        life: int,
        twice: bool,
        response: Response,
    ) -> None:
        try:
            base_offset, end = self.appended(replica, owner, expected, batches, life, twice)
        except OttlaError as error:
            response(result_of(error, replica.end))
            return
        self._advance(replica)
        self.answer_append(replica, Waiting(end, response, base_offset))
        self._wake(replica)

    def appended(
        self, replica: Replica, owner: ShardFence, expected: int, batches: bytes, life: int, twice: bool
    ) -> tuple[int, int]:
        """Where the batches begin and end in the log."""
        if len(replica.isr) < MIN_ISR:
            raise OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the ISR is too small")
        fence = fence_of(batches) if len(headers_at(batches, 0)) == 1 else None
        if self.schedule.now < self.takes_nothing_until and fence is None:
            raise OttlaError(ErrorCode.MESSAGE_TOO_LARGE, TAKES_NOTHING)
        place = self.find_append_offset(replica, owner, expected, is_fence=fence is not None)
        headers = headers_at(batches, place)
        end = headers[-1].next_offset
        if place < replica.end:
            found = [(batch.base_offset, batch.crc) for batch in replica.log if place <= batch.base_offset < end]
            if fence is None and found != [(header.base_offset, header.crc) for header in headers]:
                raise mismatch(replica.end, expected)
            return place, end
        at = 0
        for header in headers:
            batch = batches[at + 16 : at + header.size_bytes]
            data = placed_prefix(header, header.base_offset, replica.epoch) + batch
            at += header.size_bytes
            replica.put(
                Stored(header.base_offset, header.next_offset, replica.epoch, header.crc, data, fence, life, twice)
            )
        return place, end

    def find_append_offset(self, replica: Replica, owner: ShardFence, expected: int, *, is_fence: bool) -> int:
        return find_append_offset(replica.fence, replica.end, owner, expected, is_fence=is_fence)

    def answer_append(self, replica: Replica, waiting: Waiting) -> None:
        if replica.high_watermark >= waiting.end:
            waiting.response(Appended(waiting.base_offset, replica.high_watermark))
        else:
            replica.waiting.append(waiting)

    def on_check(self, replica: Replica, owner: ShardFence, next_offset: int, response: Response) -> None:
        replica.asked.append(Asked(self.schedule.now, owner, next_offset, response))
        self._wake(replica)

    def on_read(self, replica: Replica, offset: int, response: Response) -> None:
        below = [b for b in replica.log if b.next_offset > offset and b.next_offset <= replica.high_watermark]
        response(Batches(b"".join(batch.data for batch in below[:READ_BATCHES]), replica.high_watermark))

    # ---- replication ----------------------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Followers whose last fetch was lost, or waits for nothing, fetch again."""
        now = self.schedule.now
        for replica in self.replicas:
            if replica.up and not replica.leads and now - replica.fetched_at > 0.1:
                self._fetch(replica)
        self.schedule.after(0.1, self.nudge)

    def _fetch(self, follower: Replica) -> None:
        follower.fetched_at = self.schedule.now
        if follower.leader == NOBODY:
            return
        leader = self.replicas[follower.leader]
        self._send(self._on_fetch, leader, follower, follower.epoch, self.schedule.now)

    def _send(self, event: Callable[..., None], *args: object) -> None:
        random = self.schedule.random
        if random.random() >= self.loss:
            self.schedule.after(random.random() * 2 * self.delay_s, event, *args)

    def _on_fetch(self, leader: Replica, follower: Replica, epoch: int, sent_at: float) -> None:
        if not leader.leads or leader.epoch != epoch or follower.epoch != epoch or not follower.up:
            return
        common = leader.common(follower)
        if common == len(follower.log):
            leader.told[follower.number] = follower.end
            leader.told_at[follower.number] = self.schedule.now
            self._welcome(leader, follower)
            self._advance(leader)
            if follower.number in leader.isr:
                self._prove(leader, sent_at)
        if common < max(len(leader.log), len(follower.log)) or leader.high_watermark > follower.high_watermark:
            self._answer_fetch(leader, follower)
        else:
            leader.parked[follower.number] = leader.high_watermark

    def _wake(self, leader: Replica) -> None:
        for number in leader.parked:
            self._answer_fetch(leader, self.replicas[number])
        leader.parked.clear()

    def _answer_fetch(self, leader: Replica, follower: Replica) -> None:
        self._send(self._on_fetched, follower, leader, leader.epoch, len(leader.log), leader.high_watermark)

    def _on_fetched(self, follower: Replica, leader: Replica, epoch: int, length: int, high_watermark: int) -> None:
        """Nothing of a leader that was replaced since is taken: its log is compared where it ended then."""
        if not follower.up or follower.epoch != epoch or leader.epoch != epoch or not leader.up:
            return
        common = leader.common(follower)
        if common < len(follower.log):
            follower.cut_to(common)
        for batch in leader.log[len(follower.log) : length]:
            follower.put(batch)
        follower.high_watermark = max(follower.high_watermark, min(high_watermark, follower.end))
        self._fetch(follower)

    def _advance(self, leader: Replica) -> None:
        if len(leader.isr) < MIN_ISR:
            return
        counted = leader.isr | leader.wished
        high_watermark = min(leader.end if n == leader.number else leader.told.get(n, -1) for n in counted)
        if high_watermark <= leader.high_watermark:
            return
        leader.high_watermark = high_watermark
        self._on_committed(leader)
        waiting, leader.waiting = leader.waiting, []
        for one in waiting:
            self.answer_append(leader, one)
        self._wake(leader)

    def _prove(self, leader: Replica, sent_at: float) -> None:
        """A member of the ISR fetched in this leader's epoch, after these were asked: it leads still (rule 7)."""
        asked, leader.asked = leader.asked, []
        for check in asked:
            if sent_at < check.at:
                leader.asked.append(check)
            else:
                check.response(self.checked(leader, check))

    def checked(self, leader: Replica, check: Asked) -> Result:
        try:
            check_owner(leader.fence, check.owner)
            if check.next_offset > leader.end:
                raise mismatch(leader.end, check.next_offset)
        except OttlaError as error:
            return result_of(error, leader.end)
        return Confirmed()

    # ---- the controller -------------------------------------------------------------------------------------------

    def elect(self) -> None:
        """Another member of the ISR leads, if one is alive; the former leader may not hear of it for long."""
        candidates = [n for n in sorted(self.isr) if self._hears(self.replicas[n]) and n != self.leader]
        if candidates:
            self._appoint(self.schedule.random.choice(candidates))

    def _hears(self, replica: Replica) -> bool:
        return replica.up and replica.deaf_until <= self.schedule.now

    def reconcile(self) -> None:
        """Who is dead, or slow in its leader's eyes, leaves the ISR while others are in it; the dead don't lead."""
        gone = {n for n in self.isr if not self.replicas[n].up} | self._slow()
        if gone and gone != self.isr:
            self.isr -= gone
            self._announce()
        if not self.replicas[self.leader].up:
            self.elect()
        self.schedule.after(0.3, self.reconcile)

    def _slow(self) -> set[int]:
        leader = self.replicas[self.leader]
        if not leader.leads or leader.epoch != self.epoch:
            return set()
        return {n for n in self.isr - {leader.number} if self.schedule.now - leader.told_at.get(n, 0.0) > LAG_MAX_S}

    def shrink(self) -> None:
        """A follower was too slow."""
        others = sorted(self.isr - {self.leader})
        if others:
            self.isr.remove(self.schedule.random.choice(others))
            self._announce()

    def refuse(self) -> None:
        """What was taken before is not taken for a moment."""
        self.takes_nothing_until = self.schedule.now + self.schedule.random.random() * 0.3

    def crash(self, replica: Replica) -> None:
        replica.up = False
        replica.become_follower()

    def restart(self, replica: Replica) -> None:
        """It begins with what is known at its registration: an older word would make it help a deposed leader."""
        replica.up, replica.leader, replica.epoch, replica.version = True, NOBODY, -1, self.version
        if self.leader == replica.number:
            self._appoint(self.leader)  # another life of it, so another leader epoch
        else:
            self._announce()

    def _appoint(self, number: int) -> None:
        self.leader, self.epoch = number, self.epoch + 1
        self._announce()

    def _announce(self) -> None:
        self.version += 1
        for replica in self.replicas:
            delay_s = self.schedule.random.random() * 0.05
            if replica.number != self.leader and self.schedule.one_in(self.deafness):
                delay_s += self.schedule.random.random() * 2
            delay_s += max(replica.deaf_until - self.schedule.now, 0.0)
            self.schedule.after(delay_s, self._on_metadata, replica, self._word())

    def _word(self) -> Word:
        return Word(self.version, self.epoch, self.leader, frozenset(self.isr))

    def _on_metadata(self, replica: Replica, word: Word) -> None:
        if not replica.up or word.version < replica.version:
            return
        if word.epoch > replica.epoch:
            for response in [one.response for one in replica.waiting] + [one.response for one in replica.asked]:
                response(Unknown(OttlaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")))
            replica.become_follower()
            replica.epoch, replica.leader = word.epoch, word.leader
            if replica.leads:
                replica.told_at = dict.fromkeys(range(len(self.replicas)), self.schedule.now)
                self.on_elected(replica)
        replica.version = word.version
        if replica.leads:
            replica.isr = word.isr
            self._after_isr(replica)
        else:
            self._fetch(replica)

    def on_elected(self, replica: Replica) -> None:
        """It knows what its log tells."""

    def _after_isr(self, leader: Replica) -> None:
        if len(leader.isr) < MIN_ISR:
            waiting, leader.waiting = leader.waiting, []
            for one in waiting:
                one.response(Unknown(OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "appended, and then")))
        self._advance(leader)

    def _welcome(self, leader: Replica, follower: Replica) -> None:
        """Who has all up to the high watermark may join; it counts from the wish on (rule 6 of the broker)."""
        number = follower.number
        start = next((b.next_offset for b in reversed(leader.log) if b.leader_epoch < leader.epoch), 0)
        if (
            number not in leader.isr
            and number not in leader.wished
            and follower.end >= max(leader.high_watermark, start)
        ):
            leader.wished.add(number)
            self.schedule.after(0.01, self._on_wish, leader, leader.epoch, number)

    def _on_wish(self, leader: Replica, epoch: int, number: int) -> None:
        if epoch == self.epoch and self.replicas[number].up:
            self.isr.add(number)
            self._announce()
        if leader.leads and leader.epoch == epoch:
            leader.wished.discard(number)
            if epoch == self.epoch:
                self._on_metadata(leader, self._word())
