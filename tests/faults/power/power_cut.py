"""A power cut leaves what was synced of a data directory, and of the rest what the disk happened to have.

Names reach the disk in the order in which they changed, directory by directory, as with a journal. Bytes reach it in
any order. A file that was appended to keeps a random length between what is durable and what was written, at times with
zeros, garbage or a hole in what was not synced. A truncation or an overwrite that was not synced may be undone.

Three things are not simulated: a removed partition directory that comes back, a sync that lies, and durable bytes that
rot.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.faults.power.journal import BEFORE, BOOT, JOURNAL, KEPT, Journal, inodes_in, read_lines

_ASIDE: Final = ".cut"
_HOLE_BYTES: Final = 512
_WAYS: Final = {"short": 10, "whole": 3, "durable": 3, "zeros": 2, "garbage": 2, "hole": 2}
"""The weights of what may become of bytes that were not synced."""


@dataclass(slots=True)
class Cut:
    """What one power cut has taken."""

    bytes_lost: int = 0
    files_torn: int = 0
    names_undone: int = 0
    ways: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_WAYS, 0))


@dataclass(slots=True)
class _Notes:
    """The journal, read."""

    bytes: dict[int, int] = field(default_factory=dict)
    names: dict[int, tuple[int, dict[str, int]]] = field(default_factory=dict)
    changes: dict[int, list[tuple[int, list[Any]]]] = field(default_factory=dict)

    @classmethod
    def read(cls, beside: Path) -> _Notes:
        notes = cls()
        for at, line in read_lines(beside):
            match line[0]:
                case "bytes":
                    notes.bytes[line[1]] = line[2]
                case "names":
                    notes.names[line[1]] = line[2], line[3]
                    notes.changes[line[1]] = [each for each in notes.changes.get(line[1], []) if each[0] >= line[2]]
                case "create" | "rename" | "unlink":
                    notes.changes.setdefault(line[1], []).append((at, line))
        return notes

    def left_of(self, directory: int, now: Mapping[str, int], random: Random) -> dict[str, int]:
        """Return the names of a directory after the cut."""
        _, durable = self.names.get(directory, (0, {}))
        changes = self.changes.get(directory, [])
        survive = random.choice((0, len(changes) + 1, random.randint(0, len(changes) + 1)))
        if survive > len(changes):
            return dict(now)
        names = dict(durable)
        for _, (kind, _, name, *rest) in changes[:survive]:
            if kind == "create":
                names[name] = rest[0]
            else:
                names.pop(name, None)
                if kind == "rename":
                    names[rest[0]] = rest[1]
        return names


def cut_power(root: Path, beside: Path, random: Random) -> Cut:
    """Apply a power cut to a directory that no process uses any more. Everything that it leaves is durable."""
    cut, notes = Cut(), _Notes.read(beside)
    kept = beside / KEPT
    _cut_directory(root, notes, kept, random, cut)
    for directory in root.iterdir():
        if directory.is_dir():
            _cut_directory(directory, notes, kept, random, cut)
    shutil.rmtree(kept)
    (beside / JOURNAL).rename(beside / f"{JOURNAL}.{uuid.uuid4().hex[:8]}")
    (beside / BOOT).write_text(str(uuid.uuid4()), encoding="ascii")
    Journal(root, beside).sync_all(lambda: None)
    return cut


def _cut_directory(directory: Path, notes: _Notes, kept: Path, random: Random, cut: Cut) -> None:
    now = inodes_in(directory)
    paths = {inode: directory / name for name, inode in now.items()}
    left = notes.left_of(directory.stat().st_ino, now, random)
    cut.names_undone += len(set(left.items()) ^ set(now.items()))
    aside = directory.with_name(directory.name + _ASIDE)
    aside.mkdir()
    for name, inode in left.items():
        path = paths.get(inode)
        if path is not None and path.is_dir():
            path.rename(aside / name)
            continue
        source = kept / str(inode)
        if not source.exists() and path is not None:
            source = path
        if source.exists():
            os.link(source, aside / name)
            _cut_file(aside / name, notes.bytes.get(inode, 0), kept / f"{inode}{BEFORE}", random, cut)
    shutil.rmtree(directory)
    aside.rename(directory)


def _cut_file(path: Path, durable: int, before: Path, random: Random, cut: Cut) -> None:
    size = path.stat().st_size
    if before.exists() and random.random() < 0.5:
        path.write_bytes(before.read_bytes())
        cut.files_torn += 1
        return
    durable = max(0, min(durable, size))
    if durable == size:
        return
    way = random.choices(list(_WAYS), list(_WAYS.values()))[0]
    cut.ways[way] += 1
    if way == "whole":
        return
    at = durable if way == "durable" else random.randint(durable, size)
    if not path.name.startswith("."):  # such as the reserve, which nobody reads
        cut.bytes_lost += size - at
    cut.files_torn += 1
    with path.open("r+b") as file:
        file.seek(at)
        match way:
            case "zeros":
                file.write(bytes(size - at))
            case "garbage":
                file.write(random.randbytes(size - at))
            case "hole":
                file.write(bytes(min(_HOLE_BYTES, size - at)))
            case _:
                file.truncate(at)
