"""A leader's log with transactions, and a follower's: what they know is what their bytes tell, whatever happens.

The last stable offset at any high watermark, and the aborted transactions of any range, are those of a walk through all
batches; through rolls, restarts after a crash or a stop, truncations, indexes that are damaged.
"""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

import pytest
from logs import open_log
from produced import known, produced
from transactional_logs import end_of, end_transaction, transactions_told_by

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.producers import Producers
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.records.batch import TRANSACTIONAL

NOW = 1_700_000_000_000
PRODUCERS = 5


class _Story:
    """`hw`: of each of the two logs; `sent`: of each producer its epoch and next sequence."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = Random(seed)
        self.path = path
        self.config = LogConfig(segment_bytes=self.random.choice([400, 900, 3000]), index_interval_bytes=200)
        self.logs = [open_log(path / name, self.config) for name in ("leader", "follower")]
        self.hw = [0, 0]
        self.sent = dict.fromkeys(range(PRODUCERS), (0, 0))

    def step(self) -> None:
        act = self.random.choices(
            [self.produce, self.end, self.copy, self.advance, self.restart, self.damage, self.cut],
            weights=[12, 6, 5, 6, 1, 1, 1],
        )[0]
        act()
        for log, hw in zip(self.logs, self.hw, strict=True):
            check(log, hw, self.random)

    def produce(self) -> None:
        """A plain one only where no transaction is open."""
        id_ = self.random.randrange(PRODUCERS)
        epoch, sequence = self.sent[id_]
        is_open = self.logs[0].producers.has_open(id_, epoch)
        plain = id_ == 0 and not is_open
        count = self.random.randint(1, 3)
        batch = produced(sequence, count, producer_id=id_, epoch=epoch, attributes=0 if plain else TRANSACTIONAL)
        self.logs[0].append(batch, 1, NOW, transactional=True)
        self.sent[id_] = epoch, sequence + count

    def end(self) -> None:
        """By a coordinator of either version; of a producer that may have nothing open."""
        id_, v2 = self.random.randrange(PRODUCERS), self.random.random() < 0.7
        epoch, sequence = self.sent[id_]
        if v2:
            epoch, sequence = epoch + 1, 0
        end = end_of(id_, epoch, committed=self.random.random() < 0.4, v2=v2)
        end_transaction(self.logs[0], end)
        length = self.logs[0].log_end_offset
        if v2 or not self.logs[0].producers.has_open(id_, epoch):
            assert end_transaction(self.logs[0], end).duplicate
            assert self.logs[0].log_end_offset == length
        self.sent[id_] = epoch, sequence

    def copy(self) -> None:
        leader, follower = self.logs
        start = follower.log_end_offset
        records = leader.read(start, self.random.randint(100, 1000), leader.log_end_offset)
        if records:
            follower.append_replicated(records, NOW)

    def advance(self) -> None:
        committed = min(log.log_end_offset for log in self.logs)
        self.hw[0] = self.random.randint(self.hw[0], max(self.hw[0], committed))
        self.hw[1] = self.random.randint(self.hw[1], max(self.hw[0], self.hw[1]))

    def restart(self) -> None:
        n, clean = self.random.randrange(2), self.random.random() < 0.5
        log = self.logs[n]
        if self.random.random() < 0.5:
            log.flush(NOW)
        point = log.recovery_point
        if clean:
            log.close(NOW)
        self.logs[n] = open_log(log.directory, self.config, clean=clean, recovery_point=point)

    def damage(self) -> None:
        """Half an entry at the end of an index, found by the next start."""
        n = self.random.randrange(2)
        self.logs[n].close(NOW)
        indexes = sorted(Path(self.logs[n].directory).glob("*.txnindex"))
        if indexes:
            index = self.random.choice(indexes)
            data = index.read_bytes()
            index.write_bytes(data[: self.random.randrange(len(data) // 34) * 34 + 5] if data else b"x")
        self.logs[n] = open_log(self.logs[n].directory, self.config, clean=True)

    def cut(self) -> None:
        """The follower to somewhere above its high watermark, the leader never."""
        follower = self.logs[1]
        follower.truncate_to(self.random.randint(self.hw[1], follower.log_end_offset))
        self.hw[1] = min(self.hw[1], follower.log_end_offset)


def check(log: Log, hw: int, random: Random) -> None:
    told = transactions_told_by(log)
    start = log.log_start_offset
    assert log.producers.last_stable_offset(start, HighWatermark(hw)) == told.last_stable_offset(hw)
    restored = Producers(log.producers.entries(), log.producers.transactions.ended())
    assert restored.last_stable_offset(start, HighWatermark(hw)) == told.last_stable_offset(hw)
    log.producers.transactions.forget_below(HighWatermark(hw))
    assert log.producers.last_stable_offset(start, HighWatermark(hw)) == told.last_stable_offset(hw)
    assert all(ended.marker_offset >= hw for ended in log.producers.transactions.ended())
    assert {
        id_: p.transaction_offset for id_, p in known(log.producers).items() if p.transaction_offset >= 0
    } == told.open
    end = log.log_end_offset
    for _ in range(3):
        start = random.randint(0, end)
        until = random.randint(start, end)
        expected = told.overlapping(start, until)
        assert log.aborted.between(start, until) == expected
        assert log.aborted.may_end_after(start) or not expected


@pytest.mark.rule(29, 30, 36, 37, 38)
@pytest.mark.parametrize("seed", range(12))
def test_what_logs_know_of_transactions_is_what_their_batches_tell(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    story = _Story(tmp_path, seed)
    for _ in range(150):
        story.step()
    assert transactions_told_by(story.logs[0]).aborted, "there was something to know"
