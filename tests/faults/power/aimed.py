"""`python -m tests.faults.power.aimed STORY MUTANT` aims at one seam, in a cluster inside this process.

It prints one JSON object, the findings by kind and in words. MUTANT is one of `mutants`, or `none`. Random kills seldom
reproduce these stories, because each needs a few steps in a certain order.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tests.faults.cluster import until
from tests.faults.power.checker import MOST_BATCH_BYTES, MOST_ENDED, Policy, PowerFindings, SeamsChecker
from tests.faults.power.launch import start_workers_as
from tests.faults.power.mutants import MUTANTS
from tests.faults.power.replicas import read_replica
from tests.faults.put_in_place import put_in_place

import ottla
from ottla.testing import Cluster
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.maintenance.background_work import Maintenance
from ottla_broker.maintenance.data_directory import DataDirectory
from ottla_broker.replication.produce import ProducedTransaction, append
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_fetcher import Replication
from ottla_broker.storage import files
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder

TOPIC: Final = "t"
_LIMIT_S: Final = 40.0
_CHECKPOINTED_S: Final = 6.5
"""This is longer than the interval of checkpoints."""
_COMPACT: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "min.insync.replicas": 1}

T = TypeVar("T")


class Aim:
    """A cluster of some brokers with one topic of one partition, of which each broker has a replica."""

    def __init__(self, cluster: Cluster, found: PowerFindings, **configs: object) -> None:
        self.cluster: Final = cluster
        self.found: Final = found
        self.admin: Final = ottla.Admin(cluster.bootstrap)
        self.admin.configs.set({"log.cleaner.backoff.ms": 100})
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.topics.create(TOPIC, partitions=1, replicas=len(cluster.brokers), config=named)
        self.until(lambda: len(self.at.isr) == len(cluster.brokers), "all replicas to be in sync")

    @property
    def at(self) -> Any:
        return self.admin.topics.describe(TOPIC)[0].partitions[0]

    def until(self, ask: Callable[[], object], what: str, limit_s: float = _LIMIT_S) -> None:
        def asked() -> object:
            try:
                return ask()
            except ottla.OttlaError:
                return False

        until(asked, what, limit_s)

    def until_led_by(self, number: int) -> None:
        self.until(lambda: self.at.leader == number, f"broker {number} to lead")

    def replica(self, number: int) -> Replica:
        """Return the broker's replica, once the broker has it."""
        replica = until(lambda: self._replica(number), f"the replica of broker {number}", _LIMIT_S)
        assert replica is not None, "it is waited for"
        return replica

    def _replica(self, number: int) -> Replica | None:
        replicas = self.part(number, LogCleaner)._replicas.all()
        return next((replica for replica in replicas if replica.topic == TOPIC), None)

    def part(self, number: int, kind: type[T]) -> T:
        app = self.cluster.brokers[number]._app
        assert app is not None, "it runs"
        return next(each for each in app._components if isinstance(each, kind))

    def put(self, rows: dict[str, str], rounds: int = 1, *, acks: Any = "all") -> None:
        """Write one batch for each row."""
        with ottla.Producer[str, str](
            self.cluster.bootstrap, topic=TOPIC, key="str", value="str", acks=acks, batch_size=500,
            enable_idempotence=acks == "all",
        ) as producer:  # fmt: skip
            for _ in range(rounds):
                for key, value in rows.items():
                    producer.send(value, key=key).result(_LIMIT_S)

    def read(self, level: Any = "read_committed", limit_s: float = _LIMIT_S) -> list[Any]:
        """Return all records, or those that came until `limit_s` if the reader does not reach the end."""
        found: list[Any] = []

        def work() -> None:
            with ottla.Consumer[Any, Any](
                TOPIC, bootstrap=self.cluster.bootstrap, start="earliest", stop="end", key="str", value="bytes",
                isolation_level=level,
            ) as consumer:  # fmt: skip
                found.extend(consumer)
                found.append(None)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(limit_s)
        if found and found[-1] is None:
            return found[:-1]
        self.found.add("unsendable", f"a reader ({level}) got {len(found)} records and did not come to the end")
        return found

    def roll(self, number: int, producer: Any) -> None:
        """Write until a new segment begins."""
        before = len(self.replica(number).log.segments)
        while len(self.replica(number).log.segments) <= before:
            for n in range(5):
                producer.send(os.urandom(300), key=f"{time.monotonic_ns()}.{n}").result(_LIMIT_S)

    def let_days_pass(self, number: int) -> None:
        """Move the clock so far that retention takes old segments, and tombstones and markers may go."""

        async def tidy() -> None:
            self.replica(number).tidy(self.cluster.clock.wall_ms())

        self.cluster.clock.move(timedelta(days=8))
        self.cluster.run(tidy())

    def until_cleaned(self, number: int) -> None:
        """Wait until the log is cleaned up to the active segment."""

        def is_clean() -> bool:
            log = self.replica(number).log
            return log.compaction.first_dirty_offset >= log.segments[-1].base_offset

        self.until(is_clean, f"broker {number} to have cleaned its log")

    def stop_and_compare(self) -> None:
        """Stop all brokers, whose replicas were in sync, and check that the replicas are alike on their disks."""
        directories = [self.replica(number).log.directory for number in range(len(self.cluster.brokers))]
        for broker in self.cluster.brokers:
            broker.stop()
        checker = SeamsChecker()
        checker.check_replicas([read_replica(Path(each)) for each in directories], Policy(compact=True, delete=False))
        for kind in ("diverged", "damaged"):
            self.found.counts[kind] += checker.findings.counts[kind]
        self.found.examples += checker.findings.examples


# ---- elections ---------------------------------------------------------------------------------------------------


def _former_leader_returns(found: PowerFindings, *, checkpointed: bool) -> None:
    """A leader with a tail that was never committed is away; the next one is compacted, killed and recovers."""
    with Cluster(brokers=2) as cluster:
        aim = Aim(cluster, found, segment_bytes=20_000, **_named(_COMPACT))
        former, next_ = (lead := aim.at.leader), 1 - lead
        aim.put({"balance": "committed"} | {f"k{n}": "v" for n in range(30)})
        aim.until(
            lambda: aim.replica(next_).log.log_end_offset == aim.replica(former).log.log_end_offset, "it to be copied"
        )
        cluster.run(aim.part(next_, Replication).stop())  # it copies nothing for a moment
        aim.put({"balance": "never committed"}, 5, acks=1)
        cluster.brokers[former].kill()
        aim.until_led_by(next_)
        aim.put({"hot": "x" * 100}, 600)
        aim.until_cleaned(next_)
        if checkpointed:
            time.sleep(_CHECKPOINTED_S)
        cluster.brokers[next_].kill()
        cluster.brokers[next_].restart()
        aim.until_led_by(next_)
        cluster.brokers[former].restart()
        aim.until(lambda: len(aim.at.isr) == 2, "the former leader to be in sync")
        before = _balance(aim)
        cluster.brokers[next_].stop()
        aim.until_led_by(former)
        after = _balance(aim)
        if (before, after) != ("committed", "committed"):
            found.add("lost", f"the balance was {before!r}, and is {after!r} with the former leader")
        cluster.brokers[next_].restart()
        aim.until(lambda: len(aim.at.isr) == 2, "both to be in sync")
        aim.stop_and_compare()


def _balance(aim: Aim) -> str:
    values: dict[str, bytes] = {record.key: record.value for record in aim.read()}
    return values.get("balance", b"").decode()


def former_leader_returns(found: PowerFindings) -> None:
    _former_leader_returns(found, checkpointed=True)


def former_leader_returns_at_once(found: PowerFindings) -> None:
    """The checkpoint of recovery points is older than what was cleaned."""
    _former_leader_returns(found, checkpointed=False)


def emptied_log_joins(found: PowerFindings) -> None:
    """A log that was emptied is behind an unclean leader, and follows it."""
    with Cluster(brokers=2) as cluster:
        aim = Aim(cluster, found, min_insync_replicas=1, unclean_leader_election_enable="true")
        aim.put({f"first {n}": "v" for n in range(100)})
        emptied, other = (lead := aim.at.leader), 1 - lead
        cluster.brokers[other].kill()
        aim.until(lambda: len(aim.at.isr) == 1, "the other one to leave the ISR")
        aim.put({f"alone {n}": "v" for n in range(50)})
        aim.admin.topics.delete_records(TOPIC, {0: -1})
        time.sleep(_CHECKPOINTED_S)
        cluster.brokers[emptied].stop()
        cluster.brokers[other].restart()
        aim.until_led_by(other)
        cluster.brokers[emptied].restart()
        time.sleep(3.0)
        aim.put({f"after {n}": "v" for n in range(50)})
        aim.until(lambda: len(aim.at.isr) == 2, "the emptied one to be in sync")
        time.sleep(1.0)
        cluster.brokers[other].kill()
        aim.until_led_by(emptied)
        there = sum(record.key.startswith("after") for record in aim.read())
        if there < 50:
            found.add("lost", f"{50 - there} of 50 records that were acknowledged with acks=all are gone")


def emptied_log_leads(found: PowerFindings) -> None:
    """The logs decide who leads: one has everything and was emptied, the other has lost its end in a power cut."""
    boot = ["before"]
    put_in_place(files, "boot_id", lambda: boot[0])
    with Cluster(brokers=2) as cluster:
        aim = Aim(cluster, found, min_insync_replicas=2)
        aim.put({f"k{n}": "v" for n in range(50)})
        emptied, short = (lead := aim.at.leader), 1 - lead
        directory = aim.replica(short).log.directory
        cluster.brokers[short].kill()
        [log] = Path(directory).glob("*.log")
        os.truncate(log, log.stat().st_size // 2)
        aim.until(lambda: len(aim.at.isr) == 1, "the other one to leave the ISR")
        aim.let_days_pass(emptied)
        end = aim.admin.topics.offsets(TOPIC)[0] or 0
        cluster.brokers[emptied].restart()
        aim.until_led_by(emptied)
        cluster.brokers[emptied].kill()
        boot[0] = "after"  # nobody can prove that it has everything
        for number in (short, emptied):
            cluster.brokers[number].restart()
        aim.until(lambda: aim.at.leader >= 0, "a leader")
        leads = aim.at.leader
        if (there := aim.replica(leads).log.log_end_offset) < end:
            found.add("lost", f"offsets went to {end}, and broker {leads} leads with a log that goes to {there}")
            return
        aim.until(lambda: len(aim.at.isr) == 2, "both to be in sync")
        aim.put({"after": "v"})


# ---- transactions ------------------------------------------------------------------------------------------------


def marker_cleaned(found: PowerFindings) -> None:
    """A transaction's marker is cleaned away, beyond the recovery point of the last checkpoint by time; then the broker
    is killed."""

    async def later(self: Maintenance) -> None:
        """Never let the time of the next checkpoint come."""

    put_in_place(Maintenance, "_checkpoint", later)
    with Cluster(brokers=1, txn_coordinators=1) as cluster:
        aim = Aim(cluster, found, segment_bytes=20_000, delete_retention_ms=3_600_000, **_named(_COMPACT))

        def producer() -> Any:
            return ottla.Producer[Any, Any](cluster.bootstrap, topic=TOPIC, key="str", value="bytes", linger=0)

        with producer() as plain:
            plain.send(b"first", key="k").result(_LIMIT_S)
            with ottla.Producer[Any, Any](
                cluster.bootstrap, topic=TOPIC, transactional_id="x", key="str", value="bytes"
            ) as transactional:
                transactional.init_transactions()
                transactional.begin_transaction()
                transactional.send(b"of a transaction", key="k").result(_LIMIT_S)
                aim.roll(0, plain)
                log = aim.replica(0).log
                aim.admin.configs.set({"flush.ms": 1}, topic=TOPIC)
                aim.until(lambda: log.recovery_point >= log.segments[-1].base_offset, "a flush")
                aim.admin.configs.unset("flush.ms", topic=TOPIC)
                aim.part(0, DataDirectory).log_dir.checkpoint({})
                transactional.commit_transaction()
            plain.send(b"newer", key="k").result(_LIMIT_S)
            aim.roll(0, plain)
            aim.roll(0, plain)

        for _ in range(12):
            aim.let_days_pass(0)
            with producer() as plain:
                aim.roll(0, plain)
            time.sleep(1.5)
            if not any(h.is_control for s in log.segments for _, h in s.headers_from(0)):
                break
        with producer() as plain:
            plain.send(b"last", key="last").result(_LIMIT_S)
        cluster.brokers[0].kill()
        cluster.brokers[0].restart()
        aim.until(lambda: aim.replica(0).leads, "the broker to lead again")
        replica = aim.replica(0)
        try:
            until(
                lambda: replica.offsets.last_stable_offset >= replica.offsets.high_watermark,
                "the last stable offset",
                10.0,
            )
        except TimeoutError:
            at = replica.offsets.last_stable_offset, replica.offsets.high_watermark
            found.add("lso_stuck", f"nothing is open, and the log is stable up to {at[0]} of {at[1]}")


def ended_transactions_kept(found: PowerFindings) -> None:
    """Transactions end one after the other, and nobody reads from followers."""
    with Cluster(brokers=2, txn_coordinators=1) as cluster:
        aim = Aim(cluster, found, min_insync_replicas=1)
        with ottla.Producer[Any, Any](cluster.bootstrap, topic=TOPIC, transactional_id="x", linger=0) as producer:
            for n in range(4 * MOST_ENDED):
                with producer.transaction() as transaction:
                    transaction.send(n)
        ends = [aim.replica(number).log for number in range(2)]
        aim.until(lambda: ends[0].log_end_offset == ends[1].log_end_offset, "it to be copied")
        time.sleep(1.5)  # the follower hears of the high watermark
        directories = [log.directory for log in ends]
        for number in (1 - (leader := aim.at.leader), leader):  # the follower is never elected
            cluster.brokers[number].stop()
        for directory in directories:
            if (ended := read_replica(Path(directory)).ended) > MOST_ENDED:
                found.add("grown", f"{directory.parent.name} keeps {ended} transactions that are over")


def later_sequence_first(found: PowerFindings) -> None:
    """A producer's first two batches wait for the txn-coordinator, which answers to the second alone."""

    class MovingCoordinator:
        calls = 0

        async def verify(self, *_: Any) -> None:
            self.calls += 1
            await asyncio.sleep(0.01)
            if self.calls == 1:
                raise OttlaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the txn-coordinator moves", hint="try again")

    with Cluster(brokers=1) as cluster:
        aim = Aim(cluster, found, min_insync_replicas=1)
        replica = aim.replica(0)
        for version in (1, 2):
            verifier: Any = MovingCoordinator()

            async def send(sequence: int, version: int = version, verifier: Any = verifier) -> str:
                builder = new_builder(1 << 20)
                builder.append(0, b"k", b"%d" % sequence)
                records = builder.seal(
                    producer_id=version, producer_epoch=0, base_sequence=sequence, attributes=TRANSACTIONAL
                )
                try:
                    appended = append(
                        replica,
                        replica.led_in(None),
                        records,
                        1,
                        Slice(60.0),
                        ProducedTransaction(f"x{version}", version, verifier),
                    )
                    if isinstance(appended, asyncio.Future):
                        await appended
                except OttlaError as error:
                    return ErrorCode(error.code).name
                return "ok"

            async def both(send: Any = send) -> list[str]:
                return list(await asyncio.gather(send(0), send(1)))

            said = cluster.run(both())
            for sequence, answer in enumerate(said):
                if answer != "ok" and (again := cluster.run(send(sequence))) != "ok":
                    found.add("unordered", f"sequence {sequence} was {answer} with {said}, and sent again {again}")


# ---- big batches ---------------------------------------------------------------------------------------------------


def giant_batch(found: PowerFindings) -> None:
    """What a cleaning leaves of a batch compresses so well that readers would take it for a bomb."""
    builder = new_builder(1 << 27)
    now = time.time_ns() // 1_000_000
    builder.append(now, b"noise", os.urandom(420_000))
    for n in range(35):
        builder.append(now, b"big-%d" % n, bytes(1_000_000))
    batch = builder.seal(Codec.ZSTD)
    with Cluster(brokers=2) as cluster:
        aim = Aim(cluster, found, segment_bytes=1_000_000, **_named(_COMPACT))
        leader, other = (lead := aim.at.leader), 1 - lead
        aim.put({"first": "x"})

        async def take() -> None:
            aim.replica(leader).led_in(None).append(batch, -1)

        cluster.run(take())
        aim.put({"noise": "gone"})
        with ottla.Producer[Any, Any](cluster.bootstrap, topic=TOPIC, key="str", value="bytes") as producer:
            for _ in range(3):
                producer.send(os.urandom(600_000), key="other").result(_LIMIT_S)
        aim.until_cleaned(leader)
        log = aim.replica(leader).log
        largest = max(header.size_bytes for segment in log.segments for _, header in segment.headers_from(0))
        if largest > MOST_BATCH_BYTES:
            found.add("unsendable", f"of a batch of {len(batch)} bytes the cleaner has made one of {largest}")
        keys = {record.key for record in aim.read(limit_s=20.0)}
        if missing := {f"big-{n}" for n in range(35)} - keys:
            found.add("lost", f"{len(missing)} of 35 keys are not read")
        cluster.brokers[other].stop()
        shutil.rmtree(cluster.brokers[other].data_dir)
        cluster.brokers[other].restart()
        copy = aim.replica(other).log
        end = aim.replica(leader).log.log_end_offset
        try:
            until(lambda: copy.log_end_offset >= end, "the new disk to be filled", 25.0)
        except TimeoutError:
            found.add("unsendable", f"a follower with a new disk has {copy.log_end_offset} of {end}")


# ---- DeleteRecords below a transaction -----------------------------------------------------------------------------


def deleted_below_a_transaction(found: PowerFindings) -> None:
    """All is deleted while a transaction is open: the last stable offset is not below the log's start."""
    with Cluster(brokers=1, txn_coordinators=1) as cluster:
        aim = Aim(cluster, found, min_insync_replicas=1)
        with ottla.Producer[Any, Any](
            cluster.bootstrap, topic=TOPIC, transactional_id="open", transaction_timeout=60
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(0).result(_LIMIT_S)
            aim.put({f"k{n}": "v" for n in range(20)})
            start = aim.admin.topics.delete_records(TOPIC, {0: 10})[0]
            stable = aim.replica(0).offsets.last_stable_offset
            producer.commit_transaction()
        if stable < start:
            found.add("lso_stuck", f"the log starts at {start}, and is stable up to {stable}")


def _named(configs: dict[str, object]) -> dict[str, object]:
    return {name.replace(".", "_"): value for name, value in configs.items()}


STORIES: Final = MappingProxyType[str, Callable[[PowerFindings], None]](
    {
        story.__name__: story
        for story in (
            former_leader_returns, former_leader_returns_at_once, emptied_log_joins, emptied_log_leads, marker_cleaned,
            ended_transactions_kept, later_sequence_first, giant_batch, deleted_below_a_transaction,
        )
    }
)  # fmt: skip


def main(arguments: list[str]) -> int:
    story, mutant = arguments
    start_workers_as("tests.faults.power.worker", mutant)
    MUTANTS[mutant]()
    found = PowerFindings()
    failure = ""
    try:
        STORIES[story](found)
    except (TimeoutError, ottla.OttlaError) as error:
        failure = f"{type(error).__name__}: {error}"
    print(json.dumps({"counts": found.counts, "examples": found.examples, "failure": failure}), flush=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code)  # a reader that does not come to its end holds nobody up
