"""Whether a data directory still has all that this broker has acknowledged (rule C15, KIP-966).

A killed process loses nothing: what it wrote lies in the kernel's page cache. A machine that goes down takes that with
it, and what the logs hold then passes every check and is short all the same. So the directory keeps the id of the boot
under which it was last vouched for, in a file beside the checkpoints. It is sound where it was closed in order or the
machine has not started anew since, *and* each log reaches what its checkpoints promise.

Without the file nobody vouches: the directory is new, it replaces a disk, a sync of it has failed, or a start found it
short and the cluster has not been told yet.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

BOOT_ID: Final = "boot-id"

_KERNELS: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The kernel's id of this boot, the same in all containers; empty where it has none."""
    try:
        return _KERNELS.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_vouched(directory: Path, *, clean: bool) -> bool:
    """Whether what was written to `directory` last is all there, as far as the operating system goes."""
    try:
        kept = (directory / BOOT_ID).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return False
    return clean or bool(kept and kept == boot_id())


def withdraw(directory: Path) -> None:
    """Nobody vouches any more. The disk may be broken: what can't be done is left."""
    with suppress(OSError):
        (directory / BOOT_ID).unlink(missing_ok=True)
