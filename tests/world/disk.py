"""A disk that behaves like one: what was written lies in the page cache, and lasts once it was synced.

For each file, and for the names in each directory, the world keeps the durable state and the changes since then. A
power cut leaves any prefix of those changes, and perhaps a part of the next write. From some files it takes any of the
pages that were not synced. A name is durable once its directory was synced.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EBADF, EEXIST, EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR
from operator import itemgetter
from pathlib import PurePath, PurePosixPath
from random import Random
from typing import Any, Final, TypeAlias

from tests.world.fibers import World
from tests.world.misreads import Misreads, a_bit, last_batch

from ottla_broker.storage.files import DataFile, DiskSpace

_FAST_S: Final = 8e-6
_SYNC_S: Final = (0.3e-3, 4e-3)
_HOT_SHARE: Final = 0.9
_TORN_BYTES: Final = 256
_PAGE_BYTES: Final = 128
"""The pages of the world are as small as its segments."""
_SCATTERED: Final = 0.3
"""In this share of files the pages reach the disk in any order."""
LOG: Final = ".log"

Change: TypeAlias = "tuple[int, bytes] | int"
"""A write at a position, or the size to which a file was cut."""


def _unchanged(inode: int) -> int:
    return inode


class File:
    def __init__(self, inode: int) -> None:
        self.inode: Final = inode
        self.data = bytearray()
        self.durable = bytearray()
        self.changes: list[Change] = []
        self.synced = 0
        """Counts the changes that are durable."""
        self.modified_ns = 0
        self.version = 0
        """It stands for the change time: it grows with each change of the file or of its name."""
        self.holder: SimulatedFile | None = None
        self.rotten: dict[int, int] = {}
        """The bits that reads find flipped, as masks by position. `data` has what was written."""

    def change(self, change: Change) -> None:
        self.version += 1
        _apply(self.data, change)
        self.changes.append(change)
        if self.rotten:
            begin, end = (change, math.inf) if isinstance(change, int) else (change[0], change[0] + len(change[1]))
            self.rotten = {at: mask for at, mask in self.rotten.items() if not begin <= at < end}

    def read(self, begin: int, end: int) -> bytes:
        """Return what a read finds."""
        data = self.data[begin:end]
        for at, mask in self.rotten.items():
            if begin <= at < begin + len(data):
                data[at - begin] ^= mask
        return bytes(data)

    def copied(self, new_inode: Callable[[int], int] = _unchanged) -> File:
        """Return a copy of this file. Its whole content is durable."""
        copy = File(new_inode(self.inode))
        copy.modified_ns, copy.version = self.modified_ns, self.version
        copy.data, copy.durable = bytearray(self.data), bytearray(self.data)
        copy.rotten = dict(self.rotten)
        return copy

    def sync_to(self, change_number: int) -> None:
        """Make the changes before that number durable. Later ones, made while the sync ran, need another one."""
        count = max(0, change_number - self.synced)
        for change in self.changes[:count]:
            _apply(self.durable, change)
        del self.changes[:count]
        self.synced += count

    def after_crash(self, world: World) -> File:
        """Return what is left: what was synced, and a prefix of the changes since then, perhaps without some pages."""
        left, random = File(self.inode), world.random
        left.modified_ns, left.version = self.modified_ns, self.version
        left.data = bytearray(self.durable)
        count = random.randint(0, len(self.changes)) if random.random() < 0.5 else random.choice((0, len(self.changes)))
        for change in self.changes[:count]:
            _apply(left.data, change)
        if count < len(self.changes) and not isinstance(torn := self.changes[count], int) and random.random() < 0.5:
            position, data = torn
            _apply(left.data, (position, data[: random.randint(0, len(data))]))
        if random.random() < _SCATTERED:
            self._lose_pages(left, self.changes[:count], random)
        left.durable = bytearray(left.data)
        left.rotten = {at: mask for at, mask in self.rotten.items() if at < len(left.data)}
        return left

    def _lose_pages(self, left: File, changes: Sequence[Change], random: Random) -> None:
        """Take some of the pages that were written since the last sync out of a file. They are as they were before."""
        written = [range(change[0], change[0] + len(change[1])) for change in changes if not isinstance(change, int)]
        pages = {at // _PAGE_BYTES for each in written for at in (*each[::_PAGE_BYTES], *each[-1:])}
        for page in sorted(pages):
            begin, end = page * _PAGE_BYTES, min((page + 1) * _PAGE_BYTES, len(left.data))
            if random.random() < 0.5 and begin < end:
                left.data[begin:end] = self.durable[begin:end].ljust(end - begin, b"\0")


class Directory:
    def __init__(self) -> None:
        self.names: dict[str, File | Directory] = {}
        self.durable: dict[str, File | Directory] = {}
        self.changes: list[Callable[[dict[str, File | Directory]], None]] = []
        self.synced = 0
        self.modified_ns = 0

    def change(self, change: Callable[[dict[str, File | Directory]], None]) -> None:
        change(self.names)
        self.changes.append(change)

    def sync_to(self, change_number: int) -> None:
        count = max(0, change_number - self.synced)
        for change in self.changes[:count]:
            change(self.durable)
        del self.changes[:count]
        self.synced += count

    def copied(self, new_inode: Callable[[int], int] = _unchanged) -> Directory:
        copy = Directory()
        copy.names = {name: node.copied(new_inode) for name, node in self.names.items()}
        copy.durable = dict(copy.names)
        return copy

    def after_crash(self, world: World) -> Directory:
        left, names = Directory(), dict(self.durable)
        for change in self.changes[: world.random.randint(0, len(self.changes))]:
            change(names)
        left.names = {name: node.after_crash(world) for name, node in names.items()}
        left.durable = dict(left.names)
        return left


Node: TypeAlias = "File | Directory"


def _apply(data: bytearray, change: Change) -> None:
    if isinstance(change, int):
        del data[change:]
        data.extend(bytes(change - len(data)))
        return
    position, written = change
    data.extend(bytes(max(0, position - len(data))))
    data[position : position + len(written)] = written


class Volume:
    """The disk of one machine, with the id of its boot."""

    def __init__(self, *directories: str) -> None:
        """Make a disk on which these directories are there already."""
        self._empty: Final = Directory()
        for name in directories:
            self._empty.names[name] = self._empty.durable[name] = Directory()
        self.root = self._empty.copied()
        self._backup: Directory | None = None
        self.boot = 1
        self.total_bytes = 8 << 20
        self.others_bytes = 0
        """The room that other programs take."""
        self.has_no_room = False
        """Other programs take whatever becomes free."""
        self.fails = False
        """Every sync fails, and what it was to make durable may be lost."""
        self.misreads: Misreads | None = None
        self.has_failed = False
        """A sync or a read has failed since the machine's process was started."""
        self.has_lied = False
        """A read has returned a flipped bit since the machine's process was started."""

    @property
    def usable_bytes(self) -> int:
        if self.has_no_room:
            return 0
        # The exact room matters only while other programs fill the disk, and counting it takes long.
        if not self.others_bytes:
            return self.total_bytes // 2
        used = sum(len(node.data) for node in _all(self.root) if isinstance(node, File))
        return max(0, self.total_bytes - used - self.others_bytes)

    def fill(self, left_bytes: int) -> None:
        """Have other programs leave only so much room."""
        self.others_bytes += 1
        self.others_bytes += max(0, self.usable_bytes - left_bytes)

    def back_up(self) -> None:
        """Keep a copy of what is on the disk now."""
        self._backup = self.root.copied()

    def empty(self) -> None:
        """Put an empty disk in the place of this one."""
        self.root = self._empty.copied()

    def restore(self, new_inode: Callable[[int], int]) -> None:
        """Put the last copy in the place of the disk. Its files get these inodes: a snapshot keeps them."""
        assert self._backup is not None
        self.root = self._backup.copied(new_inode)

    def copy_back(self) -> None:
        """Copy the last copy over what is there, as rsync --delete does, and sync. Files that are there keep their
        inodes."""
        assert self._backup is not None
        _copy_over(self._backup, self.root)
        for node in _all(self.root):
            node.sync_to(node.synced + len(node.changes))

    def roll_back(self) -> None:
        """Put the last copy in the place of the disk below its file system: inodes and times are those of the copy."""
        self.restore(_unchanged)

    def crash(self, world: World) -> None:
        """Lose what a power cut loses, and boot again."""
        self.root = self.root.after_crash(world)
        self.boot += 1


def _copy_over(source: Directory, target: Directory) -> None:
    for name in [name for name in target.names if name not in source.names]:
        target.change(lambda names, name=name: names.pop(name, None))
    for name, node in source.names.items():
        there = target.names.get(name)
        if isinstance(node, Directory) and isinstance(there, Directory):
            _copy_over(node, there)
        elif isinstance(node, File) and isinstance(there, File):
            there.change(0)
            there.change((0, bytes(node.data)))
        else:
            copy = node.copied()
            target.change(lambda names, name=name, copy=copy: names.update({name: copy}))


class SimulatedFile(DataFile):
    """An open file of a simulated process."""

    __slots__ = ("_disks", "_is_open", "_node")

    def __init__(self, disks: Disks, path: PurePath, node: File, *, write: bool) -> None:
        self._disks = disks
        self._node = node
        self._is_open = True
        # The constructor of the real file would open one.
        self.path = path
        self.takes_writes = write
        self._fd = -1

    def __del__(self) -> None:
        """Do nothing: what a dead process has open is closed by the world."""

    def close(self) -> None:
        self._is_open = False
        if self._node.holder is self:
            self._node.holder = None

    def size_bytes(self) -> int:
        return len(self._node.data)

    def read(self, position: int, size_bytes: int) -> bytes:
        self._check(writes=False)
        self._disks.wait(_FAST_S)
        return self._disks.read(self.path, self._node, position, position + size_bytes)

    def read_into(self, view: memoryview, position: int, *, hot: bool = False) -> int | None:
        if hot and self._disks.world.random.random() > _HOT_SHARE:
            return None
        if not hot:
            self._disks.wait(_FAST_S)
        data = self._disks.read(self.path, self._node, position, position + len(view), hot=hot)
        view[: len(data)] = data
        return None if hot and len(data) < len(view) else len(data)

    def write(self, buffers: Sequence[bytes | memoryview], position: int) -> int:
        self._check(writes=True)
        data = b"".join(buffers)
        missing_bytes = position + len(data) - len(self._node.data) - self._room_bytes()
        if missing_bytes > 0:
            data = data[: max(0, len(data) - missing_bytes)]
        # A kill may come in the middle of a write.
        cut = self._disks.world.random.randint(0, len(data)) if len(data) > _TORN_BYTES else 0
        for begin, end in ((0, cut), (cut, len(data))):
            if begin < end:
                self._disks.wait(_FAST_S)
                self._node.change((position + begin, data[begin:end]))
        self._node.modified_ns = self._disks.wall_ns()
        if missing_bytes > 0 and not data:
            raise self._no_room()
        return len(data)

    def _room_bytes(self) -> int:
        return self._disks.volume_of(self.path).usable_bytes

    def _no_room(self) -> OSError:
        return OSError(ENOSPC, "No space left on device", str(self.path))

    def _check(self, *, writes: bool) -> None:
        if not self._is_open or (writes and not self.takes_writes):
            raise OSError(EBADF, "Bad file descriptor", str(self.path))

    def truncate(self, size_bytes: int) -> None:
        self._check(writes=True)
        self._disks.wait(_FAST_S)
        self._node.change(size_bytes)
        self._node.modified_ns = self._disks.wall_ns()

    def allocate(self, size_bytes: int) -> None:
        if size_bytes > self.size_bytes() + self._room_bytes():
            raise self._no_room()
        self.truncate(size_bytes)

    def sync(self) -> None:
        self._disks.sync(self.path, [self._node])

    def lock(self) -> bool:
        if self._node.holder is not None and self._node.holder is not self:
            return False
        self._node.holder = self
        process = self._disks.process
        if process is not None:
            process.on_end.append(self.close)
        return True


class Disks:
    """The functions of `ottla_broker.storage.files` over the volumes of a world. The first part of a path names its
    volume."""

    SYNCS_FILE_SYSTEMS: Final = True

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.volumes: Final[dict[str, Volume]] = {}
        self._is_inspected = False
        self._inodes: Final = itertools.count(1)

    def replace(self, name: str, *, by_backup: bool) -> None:
        """Give a machine an empty disk, or an old copy of its own. It may have booted meanwhile."""
        volume, random = self.volumes[name], self.world.random
        if not by_backup:
            volume.empty()
        elif random.random() < 0.5:
            volume.restore(_unchanged)
        else:
            volume.restore(lambda _: next(self._inodes))
        volume.boot += random.random() < 0.7

    @property
    def process(self) -> Any:
        return self.world.current.process if self.world.current is not None else None

    def wait(self, seconds: float) -> None:
        if not self._is_inspected:
            self.world.pause(seconds)

    @contextmanager
    def inspected(self) -> Iterator[None]:
        """Let no time pass meanwhile, so that a judge sees all disks at one moment."""
        self._is_inspected = True
        try:
            yield
        finally:
            self._is_inspected = False

    def volume_of(self, path: PurePath) -> Volume:
        return self.volumes[path.parts[1]]

    def wall_ns(self) -> int:
        process = self.process
        return int(process.wall_ms() if process is not None else 0) * 1_000_000

    def read(self, path: PurePath, node: File, begin: int, end: int, *, hot: bool = False) -> bytes:
        """Return what is there, or what a bad disk makes of it. Raises EIO. A judge sees what was written."""
        volume = self.volume_of(path)
        if (volume.misreads is None and not node.rotten) or self._is_inspected or self.process is None:
            return bytes(node.data[begin:end])
        if volume.misreads is not None and not hot:
            try:
                volume.misreads.check(path)
            except OSError:
                self.world.note(f"a read of {path} fails")
                volume.has_failed = True
                raise
        data, flip = bytearray(node.read(begin, end)), None
        if volume.misreads is not None and path.suffix == LOG:
            flip = volume.misreads.flipped(node.data, begin, begin + len(data))
        if flip is not None:
            self.world.note(f"a read of {path} has a flipped bit at {flip[0]}")
            data[flip[0] - begin] ^= flip[1]
        volume.has_lied = volume.has_lied or bool(flip or node.rotten)
        return bytes(data)

    def rot(self, name: str, random: Random) -> PurePath | None:
        """Flip a bit of a log that the disk has synced, for good. Return the file, or None if there is none."""
        logs = [
            (path, node)
            for path, node in self._files(PurePosixPath("/", name))
            if path.suffix == LOG and node.durable and node.data.startswith(node.durable)
        ]
        if not logs:
            return None
        path, node = random.choice(logs)
        return path if self._rot(path, node, random, 0, len(node.durable)) else None

    def rot_ends(self, name: str, random: Random) -> None:
        """Flip a bit in the last batch of each log, for good."""
        logs = [(path, node) for path, node in self._files(PurePosixPath("/", name)) if path.suffix == LOG]
        for path, node in {path.parent: (path, node) for path, node in sorted(logs, key=itemgetter(0))}.values():
            if (begin := last_batch(node.data)) is not None:
                self._rot(path, node, random, begin, len(node.data))

    def _rot(self, path: PurePath, node: File, random: Random, begin: int, end: int) -> bool:
        """Flip a bit in [begin, end) of a log's file for good. Return whether there is one to flip."""
        bit = a_bit(random, node.data, begin, end)
        if bit is None:
            return False
        self.world.note(f"a bit of {path} is flipped at {bit[0]}")
        node.rotten = {bit[0]: bit[1]}
        return True

    def mend(self, name: str) -> None:
        """Have all reads of a disk return what was written."""
        self.volumes[name].misreads = None
        for _, node in self._files(PurePosixPath("/", name)):
            node.rotten = {}

    def _files(self, directory: PurePath) -> Iterator[tuple[PurePath, File]]:
        node = self._node(directory)
        assert isinstance(node, Directory)
        for name, child in node.names.items():
            if isinstance(child, File):
                yield directory / name, child
            else:
                yield from self._files(directory / name)

    def sync(self, path: PurePath, nodes: Sequence[Node]) -> None:
        """Make durable what the nodes are when this is called."""
        ends = [node.synced + len(node.changes) for node in nodes]
        self.wait(self.world.random.uniform(*_SYNC_S))
        volume = self.volume_of(path)
        if volume.fails:
            volume.has_failed = True
            raise OSError(EIO, "Input/output error", str(path))
        for node, end in zip(nodes, ends, strict=True):
            node.sync_to(end)

    # ---- the port --------------------------------------------------------------------------------------------------

    def open_file(self, path: PurePath, *, write: bool = False, create: bool = True) -> DataFile:
        self.wait(_FAST_S)
        parent = self._parent(path)
        node = parent.names.get(path.name)
        if node is None:
            if not (write and create):
                raise _missing(path)
            node = File(next(self._inodes))
            node.modified_ns = self.wall_ns()
            _put(parent, path.name, node)
        if isinstance(node, Directory):
            raise IsADirectoryError(EISDIR, "Is a directory", str(path))
        return SimulatedFile(self, path, node, write=write)

    def open_empty(self, path: PurePath) -> DataFile:
        file = self.open_file(path, write=True)
        if file.size_bytes():
            file.truncate(0)
        return file

    def read_bytes(self, path: PurePath) -> bytes:
        file = self.open_file(path)
        return file.read(0, file.size_bytes())

    def read_text(self, path: PurePath) -> str:
        return self.read_bytes(path).decode()

    def exists(self, path: PurePath) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: PurePath) -> bool:
        return isinstance(self._find(path), Directory)

    def size_bytes(self, path: PurePath) -> int:
        node = self._node(path)
        return len(node.data) if isinstance(node, File) else 0

    def version(self, path: PurePath) -> str:
        node = self._node(path)
        return f"1:{node.inode}:{node.version}" if isinstance(node, File) else "1"

    def modified_ns(self, path: PurePath) -> int:
        return self._node(path).modified_ns

    def set_modified(self, path: PurePath, time_ns: int) -> None:
        node = self._node(path)
        node.modified_ns = time_ns
        if isinstance(node, File):
            node.version += 1

    def names_in(self, directory: PurePath) -> list[str]:
        self.wait(_FAST_S)
        node = self._node(directory)
        if not isinstance(node, Directory):
            raise NotADirectoryError(ENOTDIR, "Not a directory", str(directory))
        return list(node.names)

    def make_directory(self, path: PurePath, *, parents: bool = False) -> None:
        for each in (*reversed(path.parents), path) if parents else (path,):
            if len(each.parts) <= 2:  # the root, and the volume itself
                continue
            node = self._find(each)
            if node is None:
                _put(self._parent(each), each.name, Directory())
            elif isinstance(node, File):
                raise FileExistsError(EEXIST, "File exists", str(each))

    def rename(self, path: PurePath, target: PurePath) -> None:
        self.wait(_FAST_S)
        node, parent = self._node(path), self._parent(path)
        assert self._parent(target) is parent, "no rename of the broker moves a file to another directory"

        def change(names: dict[str, Node]) -> None:
            names.pop(path.name, None)
            names[target.name] = node

        if isinstance(node, File):
            node.version += 1
        parent.change(change)

    def remove(self, path: PurePath) -> None:
        self.wait(_FAST_S)
        if isinstance(self._node(path), Directory):
            raise IsADirectoryError(EISDIR, "Is a directory", str(path))
        self._forget(path)

    def _forget(self, path: PurePath) -> None:

        def change(names: dict[str, Node]) -> None:
            names.pop(path.name, None)

        self._parent(path).change(change)

    def remove_if_there(self, path: PurePath) -> None:
        with suppress(FileNotFoundError):
            self.remove(path)

    def remove_tree(self, directory: PurePath) -> None:
        node = self._find(directory)
        if not isinstance(node, Directory):
            return
        for name in list(node.names):
            if self.is_directory(directory / name):
                self.remove_tree(directory / name)
            else:
                self.remove_if_there(directory / name)
        if not node.names and self._find(directory) is node:
            self._forget(directory)

    def sync_names(self, directory: PurePath) -> None:
        self.sync(directory, [self._node(directory)])

    def sync_file_system(self, path: PurePath) -> None:
        self.sync(path, list(_all(self.volume_of(path).root)))

    def disk_space(self, path: PurePath) -> DiskSpace:
        self._node(path)
        volume = self.volume_of(path)
        return DiskSpace(volume.total_bytes, volume.usable_bytes, is_read_only=False)

    def boot_id(self) -> str:
        process = self.process
        return f"boot {self.volumes[process.name].boot}" if process is not None else "boot"

    def is_private(self, path: PurePath) -> bool:
        return True

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def _find(self, path: PurePath) -> Node | None:
        parts = path.parts
        if parts[1] not in self.volumes:
            return None
        node: Node = self.volumes[parts[1]].root
        for part in parts[2:]:
            if not isinstance(node, Directory) or part not in node.names:
                return None
            node = node.names[part]
        return node

    def _node(self, path: PurePath) -> Node:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        return node

    def _parent(self, path: PurePath) -> Directory:
        node = self._node(path.parent)
        if not isinstance(node, Directory):
            raise NotADirectoryError(ENOTDIR, "Not a directory", str(path))
        return node


def _put(parent: Directory, name: str, node: Node) -> None:
    def change(names: dict[str, Node]) -> None:
        names[name] = node

    parent.change(change)


def _missing(path: PurePath) -> FileNotFoundError:
    return FileNotFoundError(ENOENT, "No such file or directory", str(path))


def _all(directory: Directory) -> Iterator[Node]:
    yield directory
    for node in directory.names.values():
        if isinstance(node, Directory):
            yield from _all(node)
        else:
            yield node
