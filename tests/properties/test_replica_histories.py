"""Random histories of three replicas on real logs, with clean elections only.

Batches have several records and are deleted in their middle. Logs are cleaned to different extents, brokers are killed,
and disks are replaced. At every step the leader has what was committed. In the end all replicas are in sync and equal,
agree on where leader epochs began (I43), and none has a key that was deleted (I16).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from batches import NOON, sealed
from compacted_brokers import compact
from logs import SMALL
from replicas import Brokers

from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Partition
from ottla_core.errors import OttlaError
from ottla_core.model import NO_LEADER
from ottla_core.records.batch import iter_headers
from ottla_core.records.leader_epochs import ReplicaEpochs, unequal_epochs
from ottla_core.records.reader import read_records

IDS = (1, 2, 3)
STEPS = 120
KEYS = [b"k%d" % n for n in range(6)] + [b"rare%d" % n for n in range(20)]
WEIGHTS = [20] * 6 + [1] * 20

Row = tuple[bytes | None, bytes | None]


def rows_of(replica: Replica) -> dict[int, Row]:
    """Key and value of every record from the log's start on."""
    log, rows, offset = replica.log, dict[int, Row](), replica.log.log_start_offset
    while offset < log.log_end_offset and (data := log.read(offset, 1 << 20, log.log_end_offset)):
        for at, header in iter_headers(data):
            for record in read_records(data[at : at + header.size_bytes]):
                if record[0] >= log.log_start_offset:
                    rows[record[0]] = (record[2], record[3])
            offset = header.next_offset
    return rows


class History:
    def __init__(self, directory: Path, seed: int, *, compacts: bool) -> None:
        self.random = Random(seed)
        self.compacts = compacts
        choose = self.random.choice
        self.directory = directory
        config = replace(
            SMALL,
            segment_bytes=choose([400, 900, 3000]),
            compacts=compacts,
            deletes=True,
            retention_ms=-1,
            min_insync_replicas=choose([1, 2]),
            delete_retention_ms=0,
        )
        self.brokers = Brokers(directory, ids=IDS, config=config)
        self.partition = Partition(replicas=IDS, leader=1, leader_epoch=1, isr=IDS, partition_epoch=1)
        self.brokers.apply(self.partition)
        self.alive = set(IDS)
        self.starts = dict.fromkeys(IDS, 0)
        """The log starts on disk."""
        self.committed: dict[int, Row] = {}
        self.high_watermark = self.deleted = self.count = 0
        self.now_ms = NOON

    # ---- what may happen ---------------------------------------------------------------------------------------------

    async def step(self) -> None:
        cleans, deletes = (6, 0) if self.compacts else (0, 2)
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.produce, 10), (self.tick, 3), (self.kill, 1), (self.restart, 1), (self.tidy, 2),
            (self.delete, deletes), (self.clean, cleans),
        ]  # fmt: skip
        if self.random.random() < 0.4:
            await self.fetch(self.random.choice(IDS))
        else:
            self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()
        self.note()

    @property
    def leader(self) -> Replica | None:
        return self.brokers.replicas[self.partition.leader] if self.partition.leader in self.alive else None

    def produce(self) -> None:
        if self.leader is not None:
            value = b"%d" % self.count
            sent: list[Row] = [
                (self.random.choices(KEYS, WEIGHTS)[0], None if self.compacts and self.random.random() < 0.3 else value)
                for _ in range(self.random.choice([1, 1, 2, 4, 6]))
            ]
            self.count += 1
            self.leader.led_in(None).append(sealed([(n, NOON + n, *row, []) for n, row in enumerate(sent)]))

    async def fetch(self, follower: int) -> None:
        if self.leader is not None and follower in self.alive - {self.partition.leader}:
            try:
                size = self.random.choice([100, 300, 5000])
                await self.brokers.fetch(follower, self.partition.leader, max_bytes=size)
            except OttlaError:
                return
            self.settle()

    def settle(self) -> None:
        """The controller decides on what the leader proposes."""
        leading = self.leader and self.leader.leading
        proposal = leading and leading.proposal
        if leading and proposal and proposal.partition_epoch == self.partition.partition_epoch:
            if all(member in self.alive or member in self.partition.isr for member in proposal.isr):
                self.change(isr=proposal.isr)
            else:
                leading.on_rejected(proposal)

    def change(self, **fields: object) -> None:
        epoch = self.partition.partition_epoch + 1
        self.partition = replace(self.partition, partition_epoch=epoch, **fields)  # type: ignore[arg-type]  # any of its fields
        self.brokers.apply(self.partition, *self.alive)

    def tick(self) -> None:
        self.brokers.clock.advance(self.random.choice([1, 10, 31]))
        if self.leader is not None:
            self.leader.led_in(None).on_tick()
            self.settle()

    def delete(self) -> None:
        """Delete records up to any offset, mostly in the middle of a batch."""
        if self.leader is None:
            return
        start, high_watermark = self.leader.log.log_start_offset, self.leader.offsets.high_watermark
        if start < high_watermark:
            offset = self.random.randint(start, high_watermark)
            self.leader.led_in(None).begin_at(offset)
            self.deleted = max(self.deleted, offset)

    def tidy(self) -> None:
        for replica in (self.brokers.replicas[each] for each in self.alive):
            replica.tidy(NOON)
            if replica.log.unsecured_until:
                replica.log.secure_deletion()
                replica.tidy(NOON)

    def clean(self) -> None:
        if self.alive:
            self.now_ms += 1
            compact(self.brokers, self.random.choice(sorted(self.alive)), at_ms=self.now_ms)

    def kill(self) -> None:
        if (len(self.alive) < 2 and self.random.random() < 0.7) or not self.alive:
            return
        broker = self.random.choice(sorted(self.alive))
        self.alive.discard(broker)
        del self.brokers.live[broker]
        log = self.brokers.replicas[broker].log
        on_disk = self.random.choice([log.log_start_offset, min(self.starts[broker], log.log_start_offset)])
        self.starts[broker] = max(on_disk, log.segments[0].base_offset)
        left = tuple(each for each in self.partition.isr if each in self.alive)
        epoch = self.partition.leader_epoch + 1
        if broker == self.partition.leader and left:
            self.change(leader=self.random.choice(left), leader_epoch=epoch, isr=left)
        elif broker == self.partition.leader:
            self.change(leader=NO_LEADER, leader_epoch=epoch, isr=(broker,))
        elif broker in self.partition.isr and self.leader is not None:
            self.change(isr=left)

    def restart(self, *, may_replace_disk: bool = True) -> None:
        away = sorted({*IDS} - self.alive)
        if not away:
            return
        broker = self.random.choice(away)
        if may_replace_disk and broker not in self.partition.isr and self.random.random() < 0.4:
            shutil.rmtree(self.directory / str(broker))
            self.starts[broker] = 0
        self.brokers.live[broker] = 100 + self.partition.partition_epoch
        self.brokers.open(broker, log_start_offset=self.starts[broker])
        self.alive.add(broker)
        if self.partition.leader == NO_LEADER and broker in self.partition.isr:
            self.change(leader=broker, leader_epoch=self.partition.leader_epoch + 1, isr=(broker,))
        else:
            self.brokers.apply(self.partition, broker)

    # ---- what has to hold --------------------------------------------------------------------------------------------

    def note(self) -> None:
        """Note what was committed, and check that the leader has it."""
        if self.leader is None:
            return
        rows, high_watermark = rows_of(self.leader), self.leader.offsets.high_watermark
        if high_watermark > self.high_watermark:
            self.committed |= {at: row for at, row in rows.items() if self.high_watermark <= at < high_watermark}
            self.high_watermark = high_watermark
        assert self.leader.log.log_start_offset <= self.deleted
        assert self.leader.log.log_end_offset >= self.high_watermark
        self.check(self.leader)

    def check(self, replica: Replica) -> None:
        start, end = replica.log.log_start_offset, self.high_watermark
        found = {at: row for at, row in rows_of(replica).items() if at < end}
        sent = {at: row for at, row in self.committed.items() if start <= at < end}
        assert found.items() <= sent.items()
        if not self.compacts:
            assert found == sent
            return
        newest, table = ({key: (at, value) for at, (key, value) in sorted(rows.items())} for rows in (sent, found))
        for key, (at, value) in newest.items():
            assert table.get(key, (at, None)) == (at, value), f"{key!r} of {replica}"

    async def heal(self) -> None:
        """Have all replicas come back in sync, and compare them."""
        while self.alive != {*IDS}:
            self.restart(may_replace_disk=False)
        for _ in range(300):
            for follower in IDS:
                await self.fetch(follower)
            self.tick()
            ends = {replica.log.log_end_offset for replica in self.brokers.replicas.values()}
            if len(self.partition.isr) == len(IDS) and len(ends) == 1:
                break
        assert len(self.partition.isr) == len(IDS), "a replica never comes back"
        for _ in range(6):
            for follower in IDS:
                await self.fetch(follower)
        self.note()
        for replica in self.brokers.replicas.values():
            self.check(replica)
        assert not unequal_epochs(
            {
                each: ReplicaEpochs(r.log.epochs.entries, r.log.log_start_offset, r.offsets.high_watermark)
                for each, r in self.brokers.replicas.items()
            }
        )


@pytest.mark.parametrize("compacts", [False, True], ids=["deleted", "compacted"])
@pytest.mark.parametrize("seed", [*range(7), 14])
async def test_replicas_stay_equal(tmp_path: Path, seed: int, *, compacts: bool) -> None:
    history = History(tmp_path, seed, compacts=compacts)
    for _ in range(STEPS):
        await history.step()
    await history.heal()
