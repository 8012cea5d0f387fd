"""Data directories on file systems of their own, which a test fills. Mounting them needs root."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.testing import Cluster

MEGABYTE = 1_000_000


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """Make the directory a file system of 48 MiB. The test is skipped where that can't be mounted."""
    directory.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root; storage's unit tests show the same on a faked one")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


@contextmanager
def on_small_disk(cluster: Cluster) -> Iterator[Cluster]:
    """Run the cluster, whose first broker has a small disk. It is gone before the cluster's folder is removed."""
    with ExitStack() as mounted:
        mounted.enter_context(small_disk(cluster.brokers[0].data_dir))
        with cluster:
            try:
                yield cluster
            finally:
                mounted.close()


def fill(directory: Path) -> Path:
    """Write a file until there is no room left, and return its path."""
    path = directory / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(MEGABYTE)):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return path
