"""A start finds out whether the data directory still has all that this broker has acknowledged (KIP-966).

A broker that can't prove it leaves every ISR and ELR first (rule C15). An old copy of a volume is no proof (rule C17).

A killed process loses nothing, because what it wrote lies in the kernel's page cache. A machine that goes down loses
that cache, and the logs may then be short although they pass every check. So the directory keeps the id of the boot
under which it was last vouched for, in files beside the checkpoints. The directory is sound if it was closed in order
or the machine has not restarted since, *and* each log reaches what its checkpoints promise.

That is the directory's own evidence, and an old copy of a volume has it too. So both the vouches and the marker of a
clean stop name the *incarnation* of the broker that wrote to the directory, and the cluster keeps the newest
incarnation that it has seen: a directory that knows another one is not what the broker had last.

A copy that is put back *in place* may be of the same incarnation, and keeps the files' inodes. So there are two vouches
with consecutive numbers, which are renewed in turn, and the newer one names the older one's inode and change time (ADR
0042). No program can set a change time. A copy gives each file that it writes a new one, and a tool that leaves equal
files alone writes at least one of the two if a vouch was renewed since the copy was made. The marker of a clean stop
names a digest of the recovery points, which are where the logs ended: beside older ones it is no proof.

Without vouches nothing vouches for the directory: it is new, it replaces a disk, a sync of it has failed, or a start
found it short and the cluster does not know it yet.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from ottla_broker.storage import files

BOOT_ID: Final = "boot-id"
VOUCHES: Final = (BOOT_ID, f"{BOOT_ID}-2")
"""The two files. A vouch has the file of its number modulo two."""
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_MARKER_VERSION: Final = 0
_NO_FILE: Final = "-"


class Incarnation(NamedTuple):
    """One incarnation of a broker, as long as its process: `epoch` is that of its last registration (KIP-631)."""

    incarnation: str
    epoch: int


NO_INCARNATION: Final = Incarnation("", -1)
"""The incarnation of a directory whose broker has not registered yet."""


class Vouch(NamedTuple):
    """A statement that a directory has all that `incarnation` has written. Each has a larger `number` than those before
    it. `renewals` counts the vouches that followed a checkpoint, and the clean stops. No start of a process changes it
    before its broker has registered."""

    incarnation: Incarnation
    number: int
    renewals: int


class CleanStop(NamedTuple):
    """What the marker of a clean stop says. `digest` is that of the recovery points, or None if an older release has
    written the marker. `vouch` is None if the marker is another directory's, or torn."""

    vouch: Vouch | None
    digest: str | None


def find_vouch(directory: PurePath, directory_id: str, stop: CleanStop | None) -> Vouch | None:
    """Return the vouch of the incarnation whose writes to `directory` are all there, as far as the operating system
    goes, or None if that is not known.

    `stop` is the marker of a clean stop, or None if there was none.
    """
    found = [(_lines_of(directory / name), directory / name) for name in VOUCHES]
    kept = [(lines, path) for lines, path in found if lines is not None]
    if stop is not None:
        return stop.vouch if kept else None
    vouches = [(vouch, lines, path) for lines, path in kept if (vouch := _vouch_in(lines, directory_id)) is not None]
    if len(vouches) < len(VOUCHES):
        return None
    (older, _, older_path), (newer, lines, _) = sorted(vouches, key=lambda each: each[0].number)
    boot, seen = files.boot_id(), lines[2]
    is_proof = boot and lines[0] == boot and newer.number == older.number + 1 and seen == files.version(older_path)
    return newer if is_proof else None


def write_vouch(directory: PurePath, directory_id: str, vouch: Vouch, *, synced: bool) -> None:
    """Vouch for what its incarnation has written up to now and will write under this boot.

    It proves something once the vouch before it is there. It has to be `synced` only for a clean stop to count after
    the machine has restarted: any other start compares the boot.
    """
    path, other = directory / VOUCHES[vouch.number % 2], directory / VOUCHES[(vouch.number + 1) % 2]
    try:
        seen = files.version(other)
    except FileNotFoundError:
        seen = _NO_FILE
    text = f"{files.boot_id()}\n{vouch.number}\n{seen}\n{json.dumps(_fields_of(vouch, directory_id))}\n"
    temporary = path.with_name(f"{path.name}.tmp")
    file = files.open_empty(temporary)
    try:
        file.write_all([text.encode()], 0, len(text))
        if synced:
            file.sync()
    finally:
        file.close()
    files.rename(temporary, path)


def marker_text(vouch: Vouch, directory_id: str, recovery_points: bytes) -> str:
    """Return the content of the clean-stop marker. Kafka reads its first two fields."""
    fields = _fields_of(vouch, directory_id)
    return json.dumps({**fields, "vouch": vouch.number, "recoveryPoints": _digest(recovery_points)})


def clean_stop_of(marker: str, directory_id: str) -> CleanStop:
    """Return what the marker says."""
    try:
        fields = json.loads(marker)
        return CleanStop(_vouch_of(fields, directory_id, int(fields.get("vouch", 0))), fields.get("recoveryPoints"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return CleanStop(None, None)


def fits(stop: CleanStop, recovery_points: bytes) -> bool:
    """Return whether these are the recovery points that the clean stop has left. Others are an old copy's."""
    return stop.digest in (None, _digest(recovery_points))


def withdraw(directory: PurePath) -> None:
    """Remove the vouches. The disk may be broken, so errors are ignored."""
    for name in VOUCHES:
        with suppress(OSError):
            files.remove_if_there(directory / name)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _fields_of(vouch: Vouch, directory_id: str) -> dict[str, object]:
    return {
        "version": _MARKER_VERSION,
        "brokerEpoch": vouch.incarnation.epoch,
        "incarnation": vouch.incarnation.incarnation,
        "directoryId": directory_id,
        "renewals": vouch.renewals,
    }


def _lines_of(path: PurePath) -> list[str] | None:
    try:
        return files.read_text(path).splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _vouch_in(lines: list[str], directory_id: str) -> Vouch | None:
    """Return the vouch. It is None for one of another directory or of an older release, or a torn one."""
    try:
        _, number, _, text = lines
        return _vouch_of(json.loads(text), directory_id, int(number))
    except (ValueError, KeyError, TypeError):
        return None


def _vouch_of(fields: Any, directory_id: str, number: int) -> Vouch | None:
    if fields["directoryId"] != directory_id:
        return None
    incarnation = Incarnation(str(fields["incarnation"]), int(fields["brokerEpoch"]))
    return Vouch(incarnation, number, int(fields.get("renewals", 0)))
