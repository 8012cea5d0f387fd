"""A leader's log and a follower's, through whatever happens to either: what they know is what their bytes tell.

After every step each log's producers are those that its batches tell from the first on, its epochs are those of its
batches, and where the two logs have the same offsets after a cut by the common part, they have the same bytes.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import pytest
from batches import NOON
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from logs import headers_of, open_log, values_batch
from produced import known, produced, stored_bytes, stored_headers, told_by

from ottla_broker.machines.producers import Producers
from ottla_broker.storage.log import AppendResult, Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import body_crc

PRODUCERS = st.integers(0, 3)
EITHER = st.booleans()
ANY_SHARE = st.floats(0, 1)
REFUSALS = {
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_REQUEST,
}


class ReplicatedLogs(RuleBasedStateMachine):
    """`logs[0]` leads in `epoch`; `logs[1]` follows."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.WARNING)
        self.path = Path(tempfile.mkdtemp())
        self.epoch = 1
        self.sent: list[bytes] = []

    def teardown(self) -> None:
        shutil.rmtree(self.path)
        logging.disable(logging.NOTSET)

    @initialize(sizes=st.lists(st.integers(300, 2000), min_size=2, max_size=2), interval=st.integers(1, 600))
    def open(self, sizes: list[int], interval: int) -> None:
        self.configs = [LogConfig(segment_bytes=size, index_interval_bytes=interval) for size in sizes]
        self.logs = [open_log(self.path / f"{n}", self.configs[n]) for n in range(2)]
        self.logs[0].assign_epoch(self.epoch)

    # ---- what may happen to the leader --------------------------------------------------------------------------

    @rule(producer=PRODUCERS, count=st.integers(1, 3), batches=st.integers(1, 3), bump=st.integers(0, 9))
    def produce(self, producer: int, count: int, batches: int, bump: int) -> None:
        """The next batches of a producer; now and then of its next epoch."""
        log = self.logs[0]
        state = log.producers.get(producer)
        epoch, sequence = (state.epoch, 0) if state else (0, 0)
        if state and state.batches:
            sequence = (state.batches[-1].last_sequence + 1) % 2**31
        if bump == 0 and state:
            epoch, sequence = epoch + 1, 0
        data = b"".join(
            produced(sequence + n * count, count, producer_id=producer, epoch=epoch) for n in range(batches)
        )
        if len(data) > log.config.segment_bytes:
            return
        done = log.append(data, self.epoch, NOON)
        assert not done.duplicate
        self.sent.append(data)

    @rule(size=st.integers(0, 60))
    def produce_without_idempotence(self, size: int) -> None:
        assert not self.logs[0].append(values_batch(b"x" * size), self.epoch, NOON).duplicate

    @rule(which=st.integers(0, 30))
    def send_again(self, which: int) -> None:
        """Something that was sent once. It is written only if this log has forgotten that, which a cut may do."""
        if not self.sent:
            return
        log, data = self.logs[0], self.sent[-1 - which % len(self.sent)]
        before, was_in = stored_bytes(log), self._is_in(log, data)
        code, done = self._append(data)
        if done is None:
            assert code in REFUSALS
            assert stored_bytes(log) == before
            assert was_in or code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        elif done.duplicate:
            assert stored_bytes(log) == before
            original = headers_of(log.read(done.base_offset, len(data), log.log_end_offset))
            assert [header.crc for header in original] == [header.crc for header in headers_of(data)]
            assert original[-1].last_offset == done.last_offset
        else:
            assert not was_in

    def _append(self, data: bytes) -> tuple[int, AppendResult | None]:
        """The error's code, or what was appended."""
        try:
            return ErrorCode.NONE, self.logs[0].append(data, self.epoch, NOON)
        except OttlaError as error:
            return error.code, None

    # ---- what may happen between the two ------------------------------------------------------------------------

    @rule(max_bytes=st.integers(1, 1500))
    def replicate(self, max_bytes: int) -> None:
        leader, follower = self.logs
        self.cut_by_epochs()
        offset = follower.log_end_offset
        if offset < leader.log_end_offset:
            answer = leader.read(offset, max_bytes, leader.log_end_offset)
            assert follower.append_replicated(answer, NOON).size_bytes == len(answer)

    @rule()
    def cut_by_epochs(self) -> None:
        """As a follower does that is told of divergence, until it is told no more (rules 2 and 3)."""
        leader, follower = self.logs
        while follower.epochs.entries:
            asked = follower.epochs.latest
            theirs = leader.epochs.end_offset_for(asked, leader.log_end_offset)
            own = follower.epochs.end_offset_for(theirs.epoch, follower.log_end_offset)
            end = min(max(theirs.start_offset, 0), max(own.start_offset, 0), follower.log_end_offset)
            if theirs.epoch == asked and end == follower.log_end_offset:
                break
            follower.truncate_to(end)
        else:
            follower.truncate_to(0)
        assert stored_bytes(leader).startswith(stored_bytes(follower))

    @rule()
    def change_the_leader(self) -> None:
        self.logs.reverse()
        self.configs.reverse()
        self.epoch += 1
        self.logs[0].assign_epoch(self.epoch)

    # ---- what may happen to either ------------------------------------------------------------------------------

    @rule(leader=EITHER, share=ANY_SHARE)
    def cut(self, leader: bool, share: float) -> None:
        log = self.logs[leader]
        end = log.log_end_offset
        offset = int(share * end)
        kept = [header.next_offset for header in stored_headers(log) if header.next_offset <= offset]
        assert log.truncate_to(offset) == (max(kept, default=0) if offset < end else end)
        self._lead_again()

    @rule(leader=EITHER)
    def empty(self, leader: bool) -> None:
        self.logs[leader].truncate_fully_and_start_at(0)
        self._lead_again()

    @rule(leader=EITHER)
    def flush(self, leader: bool) -> None:
        self.logs[leader].flush(NOON)

    @rule(leader=EITHER)
    def restart(self, leader: bool) -> None:
        self.logs[leader].close(NOON)
        self._reopen(leader, clean=True)

    @rule(leader=EITHER)
    def crash(self, leader: bool) -> None:
        point = self.logs[leader].recovery_point
        self.logs[leader].abandon()
        self._reopen(leader, recovery_point=point)

    @rule(leader=EITHER, lost=st.integers(1, 600), garbage=st.binary(max_size=40))
    def crash_and_lose_the_tail(self, leader: bool, lost: int, garbage: bytes) -> None:
        log = self.logs[leader]
        log.abandon()
        path = log.segments[-1].path
        Path(path).write_bytes(Path(path).read_bytes()[:-lost] + garbage)
        self._reopen(leader)

    @rule(leader=EITHER, which=st.integers(0, 5), damage=st.sampled_from(["gone", "cut", "flip"]))
    def crash_and_damage_a_snapshot(self, leader: bool, which: int, damage: str) -> None:
        log = self.logs[leader]
        log.abandon()
        paths = sorted(Path(log.directory).glob("*.snapshot"), reverse=True)
        for path in paths[which : which + 1]:
            data = path.read_bytes()
            if damage == "gone":
                path.unlink()
            else:
                path.write_bytes(data[:-3] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
        self._reopen(leader)

    def _reopen(self, leader: bool, *, clean: bool = False, recovery_point: int = 0) -> None:
        directory, config = self.logs[leader].directory, self.configs[leader]
        self.logs[leader] = open_log(directory, config, clean=clean, recovery_point=recovery_point)
        self._lead_again()

    def _lead_again(self) -> None:
        """A leader that was cut comes back in an epoch of its own, as after an election."""
        self.epoch += 1
        self.logs[0].assign_epoch(self.epoch)

    @staticmethod
    def _is_in(log: Log, data: bytes) -> bool:
        stored = {header.crc for header in stored_headers(log)}
        return all(header.crc in stored for header in headers_of(data))

    # ---- what is true -------------------------------------------------------------------------------------------

    @invariant()
    def logs_know_what_their_bytes_tell(self) -> None:
        for log in getattr(self, "logs", ()):
            headers = stored_headers(log)
            assert known(log.producers) == told_by(headers)
            assert all(header.leader_epoch == log.epochs.epoch_of(header.base_offset) for header in headers)
            at = 0
            data = stored_bytes(log)
            for header in headers:
                assert body_crc(data[at : at + header.size_bytes]) == header.crc
                at += header.size_bytes
            assert at == len(data)
            assert log.recovery_point <= log.log_end_offset
            Producers(log.producers.entries())

    @invariant()
    def epochs_tell_where_the_logs_part(self) -> None:
        """Up to the last common batch nothing differs: bytes are the leader's or of another epoch."""
        if not hasattr(self, "logs"):
            return
        one, other = (stored_headers(log) for log in self.logs)
        for a, b in zip(one, other, strict=False):
            if a != b:
                assert (a.base_offset, a.leader_epoch) != (b.base_offset, b.leader_epoch)
                break


ReplicatedLogs.TestCase.settings = settings(max_examples=50, stateful_step_count=35)
TestReplicatedLogs = pytest.mark.rule(1, 3, 25, 28, 29, 60)(ReplicatedLogs.TestCase)
