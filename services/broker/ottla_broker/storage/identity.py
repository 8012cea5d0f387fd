"""The broker that a data directory belongs to: `meta.properties` as Kafka writes it, and the lock that one process
holds.

A directory belongs to one node of one cluster for ever. Under another node's name it would answer with the wrong logs,
so it is rejected. A second process on the directory is rejected, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats import kafka_uuid

META: Final = "meta.properties"
_LOCK: Final = ".lock"
_VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """`directory_id` is 22 characters of base64, as Kafka spells its UUIDs."""

    cluster_id: str
    node_id: int
    directory_id: str


def new_directory_id() -> str:
    return kafka_uuid.spelled(kafka_uuid.random_uuid())


def load_identity(path: PurePath) -> DirectoryIdentity | None:
    """Return the identity of the data directory, None for a new one. Raises INVALID_CONFIG if its file is damaged, and
    KAFKA_STORAGE_ERROR if the disk does not let it be read."""
    meta = path / META
    try:
        lines = _text(meta).splitlines()
    except FileNotFoundError:
        return None
    fields = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    try:
        if fields["version"] != _VERSION:
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"{meta} has version {fields['version']}, but this release reads version {_VERSION}",
                hint="run the release that wrote it, or use another data directory",
            )
        return DirectoryIdentity(fields["cluster.id"], int(fields["node.id"]), fields["directory.id"])
    except (KeyError, ValueError) as error:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"{meta} is damaged: {error!r}",
            hint="restore version, cluster.id, node.id and directory.id in the file, or use another data directory",
        ) from None


def _text(meta: PurePath) -> str:
    """Return the content of the file. Raises FileNotFoundError and KAFKA_STORAGE_ERROR."""
    try:
        return files.read_text(meta)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"reading {meta} failed: {error.strerror or error}",
            hint="check the disk, and let the user that runs the broker read the data directory",
        ) from error


def claim(disk: Disk, identity: DirectoryIdentity) -> None:
    """Make a new directory belong to `identity`, or check that it does. Raises INCONSISTENT_CLUSTER_ID or
    INVALID_CONFIG."""
    found = load_identity(disk.path)
    if found is None:
        disk.replace_file(
            disk.path / META,
            f"version={_VERSION}\ncluster.id={identity.cluster_id}\nnode.id={identity.node_id}\n"
            f"directory.id={identity.directory_id}\n",
        )
    elif found.cluster_id != identity.cluster_id:
        raise OttlaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the data directory {disk.path} belongs to the cluster {found.cluster_id!r}, not {identity.cluster_id!r}",
            hint="use the right data directory or cluster; a data directory can't move to another cluster",
        )
    elif found != identity:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"the data directory {disk.path} belongs to node {found.node_id} (directory {found.directory_id}), "
            f"not to node {identity.node_id} (directory {identity.directory_id})",
            hint=f"start the broker as node {found.node_id}, or use another data directory",
        )


class DirectoryLock:
    """A lock that is held from construction to `release`, or to the end of the process, however it ends."""

    def __init__(self, path: PurePath) -> None:
        """Take the lock. Raises INVALID_CONFIG if another process holds it."""
        self._file: Final = files.open_file(path / _LOCK, write=True)
        if not self._file.lock():
            holder = self._file.read(0, 20).decode(errors="replace").strip() or "unknown"
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"the data directory {path} is in use by another broker, process {holder}",
                hint="stop that broker, or give this one another data directory",
            )
        self._file.truncate(0)
        self._file.write([str(os.getpid()).encode()], 0)

    def release(self) -> None:
        self._file.close()
