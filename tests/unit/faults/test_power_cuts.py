"""A power cut leaves what was synced, and takes at times what was not: bytes, names and truncations."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.faults.power.journal import Journal, workers_in
from tests.faults.power.power_cut import Cut, cut_power

SEEDS = 60
HOOKED = ("fsync", "fdatasync", "ftruncate", "pwritev", "open", "unlink", "rename", "replace")


class Machine:
    """A data directory with one partition in it, and the notes beside it."""

    def __init__(self, path: Path) -> None:
        self.root, self.beside = path / "data", path / "beside"
        self.partition = self.root / "p-0"
        self.partition.mkdir(parents=True)
        self.log = self.partition / "0.log"
        self.start()
        self.sync(self.partition)
        self.sync(self.root)

    def start(self) -> None:
        self.journal = Journal(self.root, self.beside)
        self.journal.watch()

    def sync(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def append(self, path: Path, data: bytes, *, sync: bool = False) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.pwritev(fd, [data], os.fstat(fd).st_size)
        if sync:
            os.fdatasync(fd)
        os.close(fd)

    def truncate(self, path: Path, size: int) -> None:
        fd = os.open(path, os.O_RDWR)
        os.ftruncate(fd, size)
        os.close(fd)

    def cut(self, seed: int) -> Cut:
        return cut_power(self.root, self.beside, Random(seed))

    def names(self) -> set[str]:
        return set(os.listdir(self.partition))


@pytest.fixture
def outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Machine]]:
    """Return what `act` has left on each of as many machines after a power cut."""

    def run(act: Callable[[Machine], None]) -> list[Machine]:
        machines = []
        for seed in range(SEEDS):
            with monkeypatch.context() as patched:
                for name in HOOKED:
                    patched.setattr(os, name, getattr(os, name))  # and back again in the end
                machine = Machine(tmp_path / str(seed))
                act(machine)
                machine.cut(seed)
                machines.append(machine)
        return machines

    return run


Outcomes = Callable[[Callable[[Machine], None]], list[Machine]]


def test_what_was_synced_is_there_after_every_cut(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a" * 100, sync=True)
        machine.sync(machine.partition)
        machine.append(machine.log, b"b" * 100)

    found = [machine.log.read_bytes() for machine in outcomes(act)]
    assert all(each[:100] == b"a" * 100 for each in found)
    lengths = {len(each) for each in found}
    assert {100, 200} < lengths, "nothing of the rest, all of it, and lengths between"
    assert any(bytes(10) in each for each in found), "zeros came in the place of bytes"


def test_a_file_whose_name_was_not_synced_may_vanish(outcomes: Outcomes) -> None:
    found = [machine.names() for machine in outcomes(lambda machine: machine.append(machine.log, b"a", sync=True))]
    assert set() in found
    assert {"0.log"} in found


def test_renames_and_unlinks_that_were_not_synced_are_undone_at_times_in_their_order(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        for name in ("0.log", "1.log"):
            machine.append(machine.partition / name, name.encode(), sync=True)
        machine.sync(machine.partition)
        (machine.partition / "1.log").rename(machine.partition / "1.log.deleted")
        (machine.partition / "1.log.deleted").unlink()
        machine.log.rename(machine.partition / "2.log")

    machines = outcomes(act)
    found = {tuple(sorted(machine.names())) for machine in machines}
    assert found == {("0.log", "1.log"), ("0.log", "1.log.deleted"), ("0.log",), ("2.log",)}
    for machine in machines:
        for path in machine.partition.iterdir():
            assert path.read_bytes() == (b"1.log" if path.name.startswith("1") else b"0.log"), "its bytes come with it"


def test_renames_that_were_synced_last(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a", sync=True)
        machine.sync(machine.partition)
        machine.log.replace(machine.partition / "2.log")
        machine.sync(machine.partition)

    assert {tuple(machine.names()) for machine in outcomes(act)} == {("2.log",)}


def test_a_truncation_that_was_not_synced_is_undone_at_times(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a" * 100, sync=True)
        machine.sync(machine.partition)
        machine.truncate(machine.log, 40)
        machine.append(machine.log, b"b" * 10)

    found = {machine.log.read_bytes() for machine in outcomes(act)}
    assert b"a" * 100 in found
    assert b"a" * 40 + b"b" * 10 in found
    assert b"a" * 40 in found
    assert all(each == b"a" * 100 or each[:40] == b"a" * 40 for each in found)


def test_what_a_process_has_synced_is_known_to_the_next(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a" * 100, sync=True)
        machine.sync(machine.partition)
        machine.start()
        machine.append(machine.log, b"b" * 100)

    assert all(machine.log.read_bytes()[:100] == b"a" * 100 for machine in outcomes(act))


def test_all_is_durable_once_the_file_system_was_synced(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a" * 100)
        machine.journal.sync_all(lambda: None)

    assert all(machine.log.read_bytes() == b"a" * 100 for machine in outcomes(act))


def test_an_overwrite_is_durable_once_the_file_system_was_synced(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a" * 100, sync=True)
        machine.sync(machine.partition)
        machine.truncate(machine.log, 40)
        machine.journal.sync_all(lambda: None)

    assert all(machine.log.read_bytes() == b"a" * 40 for machine in outcomes(act))


def test_a_new_file_has_nothing_of_a_former_one_with_its_inode(outcomes: Outcomes) -> None:
    """The process that creates the file need not know that the former one is gone, because another has deleted it."""

    def act(machine: Machine) -> None:
        near = machine.root.stat().st_ino
        machine.journal._bytes.update(dict.fromkeys(range(near - 100_000, near + 100_000), 100))
        machine.append(machine.log, b"b" * 50)
        assert not list((machine.beside / "kept").glob("*.before"))

    outcomes(act)


def test_a_machine_that_was_cut_boots_anew_and_its_cleaners_are_forgotten(outcomes: Outcomes) -> None:
    boots: list[str] = []

    def act(machine: Machine) -> None:
        boots.append(Journal.boot_id(machine.beside))
        assert Journal.boot_id(machine.beside) == boots[-1]
        machine.journal.note_worker(7)
        assert workers_in(machine.beside) == [7]

    machines = outcomes(act)
    assert {Journal.boot_id(machine.beside) for machine in machines}.isdisjoint(boots)
    assert not any(workers_in(machine.beside) for machine in machines)


def test_what_a_cut_has_left_lasts(outcomes: Outcomes) -> None:
    def act(machine: Machine) -> None:
        machine.append(machine.log, b"a" * 100, sync=True)
        machine.sync(machine.partition)
        machine.append(machine.log, b"b" * 100)
        machine.cut(1)

    found = {machine.log.read_bytes() for machine in outcomes(act)}
    assert len(found) == 1, "a second cut takes nothing of what the first has left"
