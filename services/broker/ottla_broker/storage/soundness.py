"""A start finds out whether the data directory still has all that this broker has acknowledged (KIP-966).

A broker that can't prove it leaves every ISR and ELR first (rule C15). An old copy of a volume is no proof (rule C17).

A killed process loses nothing, because what it wrote lies in the kernel's page cache. A machine that goes down loses
that cache, and the logs may then be short although they pass every check. So the directory keeps the id of the boot
under which it was last vouched for, in a file beside the checkpoints. The directory is sound if it was closed in order
or the machine has not restarted since, *and* each log reaches what its checkpoints promise.

That is the directory's own evidence, and an old copy of a volume has it too. So both the file and the marker of a clean
stop name the *incarnation* of the broker that wrote to the directory, and the cluster keeps the newest incarnation that
it has seen: a directory that knows another one is not what the broker had last. The file names itself, too: a copy has
another inode.

Without the file nothing vouches for the directory: it is new, it replaces a disk, a sync of it has failed, or a start
found it short and the cluster does not know it yet.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import PurePath
from typing import Final, NamedTuple

from ottla_broker.storage import files

BOOT_ID: Final = "boot-id"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_MARKER_VERSION: Final = 0


class Incarnation(NamedTuple):
    """One incarnation of a broker, as long as its process: `epoch` is that of its last registration (KIP-631)."""

    incarnation: str
    epoch: int


NO_INCARNATION: Final = Incarnation("", -1)
"""The incarnation of a directory whose broker has not registered yet."""


def vouched_incarnation(directory: PurePath, directory_id: str, *, marker: str | None) -> Incarnation | None:
    """Return the incarnation whose writes to `directory` are all there, as far as the operating system goes, or None if
    that is not known.

    `marker` is the content of the marker of a clean stop, or None if there was none.
    """
    try:
        kept = files.open_file(directory / BOOT_ID)
        lines = kept.read(0, kept.size_bytes()).decode().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    if marker is not None:
        return _incarnation_of(marker, directory_id)
    boot = files.boot_id()
    if not boot or lines[:2] != [boot, kept.location()]:
        return None
    return _incarnation_of("".join(lines[2:]), directory_id)


def write_vouch(directory: PurePath, directory_id: str, incarnation: Incarnation) -> None:
    """Vouch for what `incarnation` has written up to now and will write under this boot. It takes an fsync or two."""
    temporary = directory / f"{BOOT_ID}.tmp"
    file = files.open_empty(temporary)
    text = f"{files.boot_id()}\n{file.location()}\n{incarnation_text(incarnation, directory_id)}\n".encode()
    try:
        file.write_all([text], 0, len(text))
        file.sync()
    finally:
        file.close()
    files.rename(temporary, directory / BOOT_ID)


def incarnation_text(incarnation: Incarnation, directory_id: str) -> str:
    """Return the content of the clean-stop marker. Kafka reads its first two fields."""
    return json.dumps(
        {
            "version": _MARKER_VERSION,
            "brokerEpoch": incarnation.epoch,
            "incarnation": incarnation.incarnation,
            "directoryId": directory_id,
        }
    )


def withdraw(directory: PurePath) -> None:
    """Remove the file, so that nothing vouches any more. The disk may be broken, so errors are ignored."""
    with suppress(OSError):
        files.remove_if_there(directory / BOOT_ID)


def _incarnation_of(text: str, directory_id: str) -> Incarnation | None:
    """Return the incarnation that the text names. It is None for a text of another directory or of an older release, or
    a torn one."""
    try:
        fields = json.loads(text)
        if fields["directoryId"] != directory_id:
            return None
        return Incarnation(str(fields["incarnation"]), int(fields["brokerEpoch"]))
    except (ValueError, KeyError, TypeError):
        return None
