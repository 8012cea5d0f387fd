"""One suite over the broker's files as the operating system has them and as the world has them.

The simulation relies on what these tests say of the real functions. What only a simulated disk can show, a power cut,
stands at the end.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from random import Random
from typing import Any

import pytest
from tests.world.client import batch_of
from tests.world.disk import Disks, Volume
from tests.world.fibers import World
from tests.world.network import Network
from tests.world.process import Process

from ottla_broker.storage import files as real_files


class _Case:
    """A port, and a directory of it."""

    def __init__(self, files: Any, directory: PurePath) -> None:
        self.files = files
        self.directory = directory


@pytest.fixture(params=["real", "simulated"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> _Case:
    if request.param == "real":
        return _Case(real_files, tmp_path)
    disks = Disks(World(1))
    disks.volumes["host"] = Volume("data")
    return _Case(disks, PurePosixPath("/host/data"))


def test_the_simulation_has_every_function_of_the_port() -> None:
    functions = {
        name
        for name, value in vars(real_files).items()
        if not name.startswith("_") and callable(value) and value.__module__ == real_files.__name__
    }
    assert functions - {"DataFile", "DiskSpace"} <= vars(Disks).keys()


def test_a_file_holds_what_was_written_where_it_was_written(case: _Case) -> None:
    path = case.directory / "file"
    file = case.files.open_file(path, write=True)
    assert file.write([b"abc", memoryview(b"def")], 0) == 6
    file.write_all([b"XY"], 2, 2)
    file.write([b"z"], 8)
    assert case.files.read_bytes(path) == b"abXYef\0\0z"
    assert (file.read(1, 3), file.read(7, 100), file.read(100, 5)) == (b"bXY", b"\0z", b"")
    assert (file.size_bytes(), case.files.size_bytes(path)) == (9, 9)
    view = memoryview(bytearray(4))
    assert file.read_into(view, 6) == 3
    assert bytes(view) == b"\0\0z\0"
    file.truncate(2)
    file.truncate(4)
    file.sync()
    assert case.files.read_bytes(path) == b"ab\0\0"
    file.allocate(8)
    assert file.size_bytes() == 8


def test_a_read_of_warm_bytes_only_gives_all_of_them_or_none(case: _Case) -> None:
    file = case.files.open_file(case.directory / "file", write=True)
    file.write([b"abcd"], 0)
    view = memoryview(bytearray(4))
    found = [file.read_into(view, 0, hot=True) for _ in range(50)]
    assert 4 in found
    assert set(found) <= {4, None}
    assert file.read_into(memoryview(bytearray(5)), 0, hot=True) is None


def test_an_open_file_outlives_its_name(case: _Case) -> None:
    path = case.directory / "file"
    file = case.files.open_file(path, write=True)
    file.write([b"old"], 0)
    case.files.rename(path, case.directory / "renamed")
    case.files.open_file(path, write=True).write([b"new"], 0)
    case.files.remove(case.directory / "renamed")
    file.write([b"er"], 3)
    assert file.read(0, 10) == b"older"
    assert case.files.read_text(path) == "new"


def test_what_is_missing_or_of_another_kind_is_an_error(case: _Case) -> None:
    files, missing = case.files, case.directory / "missing"
    for call in (files.open_file, files.read_bytes, files.remove, files.size_bytes, files.modified_ns, files.names_in):
        with pytest.raises(FileNotFoundError):
            call(missing)
    for call in (files.open_file, files.open_empty):
        with pytest.raises(FileNotFoundError):
            call(missing / "below", write=True) if call is files.open_file else call(missing / "below")
    with pytest.raises(FileNotFoundError):
        files.open_file(missing, write=True, create=False)
    with pytest.raises(FileNotFoundError):
        files.rename(missing, case.directory / "other")
    files.remove_if_there(missing)
    files.remove_tree(missing)
    files.make_directory(case.directory / "directory")
    with pytest.raises(IsADirectoryError):
        files.open_file(case.directory / "directory", write=True)
    file = files.open_empty(case.directory / "file")
    file.write([b"x"], 0)
    with pytest.raises(FileExistsError):
        files.make_directory(case.directory / "file")
    with pytest.raises(NotADirectoryError):
        files.names_in(case.directory / "file")
    assert not files.exists(missing)
    assert files.exists(case.directory / "file")
    assert files.is_directory(case.directory / "directory")
    assert not files.is_directory(case.directory / "file")


def test_names_are_listed_renamed_and_removed(case: _Case) -> None:
    files, directory = case.files, case.directory / "a" / "b"
    with pytest.raises(FileNotFoundError):
        files.make_directory(directory)
    files.make_directory(directory, parents=True)
    files.make_directory(directory)
    for name in ("one", "two", "three"):
        files.open_empty(directory / name)
    files.rename(directory / "one", directory / "two")
    assert sorted(files.names_in(directory)) == ["three", "two"]
    files.rename(directory, case.directory / "a" / "c")
    assert files.names_in(case.directory / "a") == ["c"]
    files.sync_names(case.directory / "a")
    files.remove_tree(case.directory / "a")
    assert files.names_in(case.directory) == []


def test_opening_an_empty_file_empties_it(case: _Case) -> None:
    path = case.directory / "file"
    case.files.open_empty(path).write([b"content"], 0)
    assert case.files.open_empty(path).size_bytes() == 0
    assert case.files.read_bytes(path) == b""


def test_one_holder_at_a_time_has_the_lock(case: _Case) -> None:
    path = case.directory / "lock"
    first, second = (case.files.open_file(path, write=True) for _ in range(2))
    assert first.lock()
    assert first.lock()
    assert not second.lock()
    first.close()
    assert second.lock()


def test_a_file_takes_a_time_and_keeps_it_under_another_name(case: _Case) -> None:
    path = case.directory / "file"
    case.files.open_empty(path)
    case.files.set_modified(path, 12_000_000)
    case.files.rename(path, case.directory / "other")
    assert case.files.modified_ns(case.directory / "other") == 12_000_000


def test_a_file_has_another_version_after_each_change_and_so_has_its_copy(case: _Case) -> None:
    path, other = case.directory / "file", case.directory / "other"
    file = case.files.open_empty(path)
    versions = [case.files.version(path)]
    assert case.files.version(path) == versions[0]

    def changed(at: PurePath) -> None:
        versions.append(case.files.version(at))

    write, cut, date = partial(file.write, [b"12345"], 0), partial(file.truncate, 3), case.files.set_modified
    steps: list[tuple[Callable[[], object], PurePath]] = [
        (write, path),
        (write, path),
        (cut, path),
        (partial(date, path, 12_000_000), path),
        (partial(case.files.rename, path, other), other),
    ]
    for step, renamed in steps:
        time.sleep(0.01)  # the kernel's clock of change times ticks every few milliseconds
        step()
        changed(renamed)
    case.files.open_empty(path).write([b"123"], 0)
    changed(path)
    assert len(set(versions)) == len(versions)


def test_a_file_system_has_room_and_is_synced(case: _Case) -> None:
    space = case.files.disk_space(case.directory)
    assert 0 < space.usable_bytes <= space.total_bytes
    assert not space.is_read_only
    assert case.files.boot_id() == case.files.boot_id()
    if case.files.SYNCS_FILE_SYSTEMS:
        case.files.sync_file_system(case.directory)


def test_a_write_of_which_the_disk_takes_a_part_is_an_error(case: _Case, monkeypatch: pytest.MonkeyPatch) -> None:
    file = case.files.open_file(case.directory / "file", write=True)
    monkeypatch.setattr(type(file), "write", lambda *_: 3)
    with pytest.raises(OSError, match="accepted only 3 of 5 bytes for file") as caught:
        file.write_all([b"12345"], 0, 5)
    assert caught.value.errno == errno.ENOSPC


# ---- what only a simulated disk can show -----------------------------------------------------------------------------


class _Machine:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.disks = Disks(self.world)
        self.disks.volumes["host"] = Volume("data")
        self.directory = PurePosixPath("/host/data")

    def crash(self) -> dict[str, bytes]:
        self.disks.volumes["host"].crash(self.world)
        names = self.disks.names_in(self.directory)
        return {name: self.disks.read_bytes(self.directory / name) for name in names}


def after_crashes(begin: Any) -> Iterator[dict[str, bytes]]:
    for seed in range(200):
        machine = _Machine(seed)
        begin(machine)
        yield machine.crash()


def test_a_power_cut_leaves_what_was_synced_and_any_prefix_of_the_rest() -> None:
    def begin(machine: _Machine) -> None:
        file = machine.disks.open_file(machine.directory / "file", write=True)
        file.write([b"synced"], 0)
        file.sync()
        machine.disks.sync_names(machine.directory)
        file.write([b" and more"], 6)
        file.write([b", and most"], 15)

    left = {each["file"] for each in after_crashes(begin)}
    whole = b"synced and more, and most"
    assert all(each.startswith(b"synced") and whole.startswith(each.rstrip(b"\0")) for each in left)
    assert {b"synced", b"synced and more", whole} < left, "torn ones, too"


def test_a_name_lasts_once_its_directory_was_synced() -> None:
    def begin(machine: _Machine) -> None:
        disks, directory = machine.disks, machine.directory
        for name in ("old", "lost"):
            file = disks.open_file(directory / name, write=True)
            file.write([name.encode()], 0)
            file.sync()
            if name == "old":
                disks.sync_names(directory)
        disks.rename(directory / "old", directory / "new")

    left = [tuple(sorted(each.items())) for each in after_crashes(begin)]
    old, new, lost = ("old", b"old"), ("new", b"old"), ("lost", b"lost")
    assert set(left) == {(old,), (lost, old), (lost, new)}


def test_a_sync_does_not_cover_what_is_written_while_it_runs() -> None:
    machine = _Machine(1)
    file = machine.disks.open_file(machine.directory / "file", write=True)
    machine.disks.sync_names(machine.directory)
    file.write([b"before"], 0)
    machine.disks.wait = lambda seconds: file._node.change((6, b" during"))  # type: ignore[attr-defined]  # of the world
    file.sync()
    del machine.disks.wait
    left = set()
    for seed in range(100):
        machine.world.random.seed(seed)
        left.add(bytes(file._node.after_crash(machine.world).data))  # type: ignore[attr-defined]  # of the world
    assert all(each.startswith(b"before") for each in left)
    assert {b"before", b"before during"} <= left


def test_a_power_cut_may_take_any_page_that_was_not_synced() -> None:
    def begin(machine: _Machine) -> None:
        file = machine.disks.open_file(machine.directory / "file", write=True)
        file.write([b"a" * 128], 0)
        file.sync()
        machine.disks.sync_names(machine.directory)
        file.write([b"b" * 512], 0)

    pages = {
        tuple(chr(each["file"][at]) for at in range(0, 512, 128))
        for each in after_crashes(begin)
        if len(each["file"]) == 512
    }
    assert ("b", "b", "b", "b") in pages
    assert {page[0] for page in pages} == {"a", "b"}, "the synced page may be the former one"
    assert any(page[1:3] == ("\0", "b") for page in pages), "a later page is there without an earlier one"


def test_a_flipped_bit_lies_where_a_reader_can_see_it() -> None:
    """It stays until the operator mends the disk, or other bytes are written there."""
    machine = _Machine(1)
    batch = batch_of(b"key", b"value", 1)
    file = machine.disks.open_file(machine.directory / "log.log", write=True)
    file.write([batch, batch], 0)
    file.sync()
    reads: list[bytes] = []

    async def read(_: Process) -> None:
        reads.append(file.read(0, 2 * len(batch)))

    found = set()
    for seed in range(200):
        assert machine.disks.rot("host", Random(seed)) is not None
        Process(machine.world, Network(machine.world), "host", read)
        machine.world.run_for(1.0)
        (at,) = (at for at, byte in enumerate(reads.pop()) if byte != (2 * batch)[at])
        found.add(at % len(batch))
        assert machine.disks.read_bytes(machine.directory / "log.log") == 2 * batch, "a judge sees what was written"
    assert not found & {*range(8), *range(12, 16)}, "no CRC covers the base offset and the leader epoch"
    assert {8, 16, 17, len(batch) - 1} <= found
    file.write([batch], at - at % len(batch))
    assert not file._node.rotten  # type: ignore[attr-defined]  # of the world


def test_the_last_batch_of_each_log_may_be_damaged() -> None:
    machine = _Machine(1)
    batch = batch_of(b"key", b"value", 1)
    files = [machine.disks.open_file(machine.directory / name, write=True) for name in ("00.log", "01.log")]
    for file in files:
        file.write([batch, batch], 0)
    machine.disks.rot_ends("host", Random(1))
    earlier, last = (file._node.rotten for file in files)  # type: ignore[attr-defined]  # of the world
    assert not earlier
    (at,) = last
    assert len(batch) <= at < 2 * len(batch)
