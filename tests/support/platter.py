"""What a power cut leaves of a directory: what was synced, and of the rest what the disk happened to have.

The directory itself is the page cache. Beside it `Platter` keeps what is on the disk for certain: of a file the bytes
of its last fsync, of a directory the names of its last one, after a syncfs all. Names reach a disk in the order in
which they changed, as with a journal; bytes in any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from ottla_broker.storage import files

STEPS: Final = ("rename", "replace", "unlink", "mkdir", "ftruncate", "pwritev")
"""Functions of `os` that change names or bytes, apart from the creation of files."""


class _Node:
    """A file or a directory, under whatever name; `file` keeps its number from being given twice."""

    def __init__(self, path: Path) -> None:
        self.file: Final = os.open(path, os.O_RDONLY)
        self.is_directory: Final = path.is_dir()
        self.synced = b""
        self.names: dict[str, _Node] = {}

    def now(self) -> bytes:
        return os.pread(self.file, os.fstat(self.file).st_size, 0)


class Platter:
    """`on_step` is called after each step of the storage, with its name: power may be cut there."""

    def __init__(self, root: Path, on_step: Callable[[str], None]) -> None:
        self.root: Final = root
        self._on_step: Final = on_step
        self._nodes: dict[int, _Node] = {}
        self._is_paused = False
        self.sync_all()

    @contextmanager
    def watched(self) -> Iterator[Platter]:
        hooks: dict[str, Any] = {name: self._then_step(name, getattr(os, name)) for name in STEPS}
        hooks |= {"fsync": self._sync, "fdatasync": self._sync}
        syncs_all = patch.object(files, "sync_file_system", lambda _: self._step("syncfs", self.sync_all))
        with patch.multiple(os, **hooks), syncs_all:
            yield self
        for node in self._nodes.values():
            os.close(node.file)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is another machine's."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def cut(self, target: Path, random: Random, *, names_survive: bool, bytes_survive: bool) -> None:
        """Write what is left to `target`: what was synced, and where it survives what was not."""
        with self.paused():
            self._write(self._node(self.root), self.root, target, random, names_survive, bytes_survive)

    def sync_all(self) -> None:
        for path in (self.root, *self.root.rglob("*")):
            self._sync_node(path)

    def _write(
        self, node: _Node, path: Path, target: Path, random: Random, names_survive: bool, bytes_survive: bool
    ) -> None:
        if not node.is_directory:
            target.write_bytes(_left_of(node.synced, node.now(), random) if bytes_survive else node.synced)
            return
        target.mkdir()
        names = {name: self._node(path / name) for name in os.listdir(path)} if names_survive else node.names
        for name, child in names.items():
            self._write(child, path / name, target / name, random, names_survive, bytes_survive)

    def _sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self._step(f"sync {path.name}", lambda: self._sync_node(path))

    def _sync_node(self, path: Path) -> None:
        node = self._node(path)
        if node.is_directory:
            node.names = {name: self._node(path / name) for name in os.listdir(path)}
        else:
            node.synced = node.now()

    def _node(self, path: Path) -> _Node:
        number = path.stat().st_ino
        if number not in self._nodes:
            self._nodes[number] = _Node(path)
        return self._nodes[number]

    def _then_step(self, name: str, do: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: self._step(name, lambda: do(*arguments, **options))

    def _step(self, name: str, do: Callable[[], Any]) -> Any:
        if self._is_paused:
            return do() if name in STEPS else None
        done = do()
        self._on_step(name)
        return done


def _left_of(synced: bytes, now: bytes, random: Random) -> bytes:
    """Bytes that were written and not synced are there, or zeroes are, or a part of either."""
    if not now.startswith(synced):
        return random.choice((synced, now))
    rest = now[len(synced) :]
    return synced + random.choice((rest, bytes(len(rest))))[: random.choice((len(rest), random.randint(0, len(rest))))]
