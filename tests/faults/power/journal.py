"""Notes which bytes and names of a data directory are on the disk for certain, while a broker and its cleaner run.

The data directory itself is the page cache. The notes lie beside it, in a directory of their own:

    journal     one JSON array a line:
                ["bytes", inode, size]              an fsync of a file: its first `size` bytes last; -1: it is gone
                ["names", inode, since, {name: inode}]   an fsync of a directory, as it was when the journal was
                                                    `since` bytes long
                ["create", inode, name, inode]  ["rename", inode, from, to, inode]  ["unlink", inode, name]
                                                    a name that changed; the first inode is the directory's
                ["worker", pid]                     a process of the cleaner
    kept/       a second name for each file that is noted, so that an unlink can be undone and no inode is reused
    boot        the id of this boot of the simulated machine

`power_cut` reads them. A file is appended to; where bytes that last are overwritten or cut off, `kept/<inode>.before`
holds what was there, until the next fsync.
"""

from __future__ import annotations

import json
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any, Final

JOURNAL: Final = "journal"
KEPT: Final = "kept"
BOOT: Final = "boot"
BEFORE: Final = ".before"

Line = list[Any]


def read_lines(beside: Path) -> Iterator[tuple[int, Line]]:
    """Iterate over the whole lines, each with the position of its first byte."""
    at = 0
    with suppress(FileNotFoundError), (beside / JOURNAL).open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield at, json.loads(line)
            at += len(line)


def workers_in(beside: Path) -> list[int]:
    """The processes of the cleaner since the last cut."""
    return [line[1] for _, line in read_lines(beside) if line[0] == "worker"]


def inodes_in(directory: Path) -> dict[str, int]:
    with os.scandir(directory) as entries:
        return {entry.name: entry.inode() for entry in entries}


class Journal:
    """One process's hold on the notes of the data directory `root`; `watch` makes it see what the process does."""

    def __init__(self, root: Path, beside: Path) -> None:
        self._root: Final = root
        self._prefix: Final = f"{root}/"
        self._beside: Final = beside
        self._kept: Final = beside / KEPT
        self._kept.mkdir(parents=True, exist_ok=True)
        self._lock: Final = RLock()
        self._bytes: dict[int, int] = {}
        self._names: dict[int, set[int]] = {}
        for _, line in read_lines(beside):
            if line[0] == "bytes":
                self._bytes[line[1]] = line[2]
            elif line[0] == "names":
                self._names[line[1]] = set(line[3].values())
        self._file: Final = os.open(beside / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @staticmethod
    def boot_id(beside: Path) -> str:
        """Return the simulated machine's boot id, which each power cut changes."""
        path = beside / BOOT
        if not path.exists():
            path.write_text(str(uuid.uuid4()), encoding="ascii")
        return path.read_text(encoding="ascii")

    def note_worker(self, pid: int) -> None:
        self._write(["worker", pid])

    def watch(self) -> None:
        """Wrap the calls that change bytes and names, or sync, so that each is noted here."""
        syncs = {"fsync": os.fsync, "fdatasync": os.fdatasync}
        for name, sync in syncs.items():
            setattr(os, name, self._then_noted(sync))
        os.ftruncate = self._truncating(os.ftruncate)
        os.pwritev = self._writing(os.pwritev)
        os.open = self._opening(os.open)
        os.unlink = self._unlinking(os.unlink)
        for name in ("rename", "replace"):
            setattr(os, name, self._renaming(getattr(os, name)))

    def sync_all(self, sync: Callable[[], None]) -> None:
        """Call `sync`, and note that all that was there before it is durable."""
        found = [directory for directory in (self._root, *self._root.iterdir()) if directory.is_dir()]
        lines: list[Line] = []
        with self._lock:
            for directory in found:
                with suppress(OSError):  # it is being removed
                    lines.append(self._names_line(directory))
                    lines += self._bytes_lines(directory)
        sync()
        with self._lock:
            for line in lines:
                self._on_names(line) if line[0] == "names" else self._on_bytes(line)

    # ---- syncs -----------------------------------------------------------------------------------------------------

    def _then_noted(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def synced(fd: int) -> None:
            path = self._path_of(fd)
            if path is None:
                sync(fd)
                return
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                with self._lock:
                    line = self._names_line(path)
                sync(fd)
                with self._lock:
                    self._on_names(line)
                return
            with self._lock:
                self._keep(status.st_ino, path)
            sync(fd)
            with self._lock:
                self._on_bytes(["bytes", status.st_ino, status.st_size])

        return synced

    def _names_line(self, directory: Path) -> Line:
        names = inodes_in(directory)
        for name, inode in names.items():
            self._keep(inode, directory / name)
        return ["names", directory.stat().st_ino, os.fstat(self._file).st_size, names]

    def _bytes_lines(self, directory: Path) -> list[Line]:
        with os.scandir(directory) as entries:
            return [["bytes", each.inode(), each.stat().st_size] for each in entries if each.is_file()]

    def _on_bytes(self, line: Line) -> None:
        """Note the durable size of a file. What was there before an overwrite can't come back."""
        _, inode, size = line
        self._bytes[inode] = size
        self._write(line)
        (self._kept / f"{inode}{BEFORE}").unlink(missing_ok=True)

    def _on_names(self, line: Line) -> None:
        """Note the durable names; what is gone from the directory for certain can't come back."""
        _, directory, _, names = line
        inodes = set(names.values())
        for gone in self._names.get(directory, set()) - inodes:
            for path in (self._kept / str(gone), self._kept / f"{gone}{BEFORE}"):
                path.unlink(missing_ok=True)
            if self._bytes.pop(gone, None) is not None:
                self._write(["bytes", gone, -1])
        self._names[directory] = inodes
        self._write(line)

    def _keep(self, inode: int, path: Path) -> None:
        kept = self._kept / str(inode)
        if not kept.exists() and not path.is_dir():
            with suppress(OSError):  # it has just been removed
                os.link(path, kept)

    # ---- changes ---------------------------------------------------------------------------------------------------

    def _truncating(self, truncate: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def truncated(fd: int, length: int) -> None:
            self._on_overwrite(fd, length)
            truncate(fd, length)

        return truncated

    def _writing(self, write: Callable[..., int]) -> Callable[..., int]:
        def written(fd: int, buffers: Any, offset: int, *flags: int) -> int:
            self._on_overwrite(fd, offset)
            return write(fd, buffers, offset, *flags)

        return written

    def _on_overwrite(self, fd: int, position: int) -> None:
        """Keep the durable bytes from `position` on, before they are overwritten."""
        inode = os.fstat(fd).st_ino
        durable = self._bytes.get(inode, 0)
        if position >= durable:
            return
        with self._lock:
            before = self._kept / f"{inode}{BEFORE}"
            if not before.exists():
                path = self._path_of(fd)
                if path is None:
                    return
                before.write_bytes(path.read_bytes()[:durable])
            self._bytes[inode] = position
            self._write(["bytes", inode, position])

    def _opening(self, open_: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            directory = self._directory_of(path) if flags & os.O_CREAT and not named.get("dir_fd") else None
            if directory is None:
                return open_(path, flags, *arguments, **named)
            with self._lock:
                is_new = not os.path.lexists(path)
                fd = open_(path, flags, *arguments, **named)
                if is_new:
                    inode = os.fstat(fd).st_ino
                    # Another process may have deleted a file with this inode, whose bytes mean nothing for the new one.
                    self._bytes.pop(inode, None)
                    self._write(["create", directory, os.path.basename(path), inode])
                return fd

        return opened

    def _renaming(self, rename: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: Any, target: Any, **named: Any) -> None:
            directory = self._directory_of(source)
            if directory is None:
                rename(source, target, **named)
                return
            with self._lock:
                inode = os.stat(source).st_ino
                rename(source, target, **named)
                self._write(["rename", directory, os.path.basename(source), os.path.basename(target), inode])

        return renamed

    def _unlinking(self, unlink: Callable[..., None]) -> Callable[..., None]:
        def unlinked(path: Any, **named: Any) -> None:
            directory = self._directory_of(path) if not named.get("dir_fd") else None
            if directory is None:
                unlink(path, **named)
                return
            with self._lock:
                unlink(path, **named)
                self._write(["unlink", directory, os.path.basename(path)])

        return unlinked

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _path_of(self, fd: int) -> Path | None:
        """Return the path of a file or directory that is watched."""
        name = os.readlink(f"/proc/self/fd/{fd}")
        return Path(name) if name == str(self._root) or name.startswith(self._prefix) else None

    def _directory_of(self, path: Any) -> int | None:
        """Return the inode of the watched directory that the name is in."""
        text = os.fspath(path) if not isinstance(path, int) else ""
        if not isinstance(text, str) or not text.startswith(self._prefix):
            return None
        try:
            return os.stat(os.path.dirname(text)).st_ino
        except FileNotFoundError:
            return None

    def _write(self, line: Mapping[str, Any] | Line) -> None:
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
