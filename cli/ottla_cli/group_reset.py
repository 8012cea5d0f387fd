"""`ottla group reset`: positions as `ottla consume --from` has them, and the plan as a table."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import config_error
from ottla_cli.offsets import Anchor, parse_position
from ottla_cli.terminal import say

if TYPE_CHECKING:
    from ottla.admin.group_info import OffsetReset
    from ottla.admin.group_reset import ResetTarget

RESET_COLUMNS: Final = ("topic", "partition", "before", "after", "moved")


def reset_target(text: str) -> ResetTarget:
    """The target that --to names. Raises ConfigError."""
    position = parse_position(text, "--to", now_ms=time.time_ns() // 1_000_000)
    match position.anchor:
        case Anchor.START if not position.number:
            return "earliest"
        case Anchor.END if not position.number:
            return "latest"
        case Anchor.OFFSET:
            return position.number
        case Anchor.TIME:
            seconds, ms = divmod(position.number, 1000)
            return datetime.fromtimestamp(seconds, UTC).replace(microsecond=ms * 1000)
    raise config_error(
        f"--to {text!r} is relative to an end of the log",
        hint=f"use --shift {text} to move the offsets relative to their current values",
    )


def reset_item(reset: OffsetReset, action: str) -> dict[str, Any]:
    """`moved` is None where nothing was committed."""
    return {
        "name": f"{reset.topic}-{reset.partition}",
        "topic": reset.topic,
        "partition": reset.partition,
        "before": reset.before,
        "after": reset.after,
        "moved": None if reset.before is None else reset.moved,
        "wanted": reset.wanted,
        "action": action,
    }


def report_clamped(resets: Iterable[OffsetReset]) -> None:
    """Report each offset that moves to an end of its partition, because the requested one is outside."""
    for reset in resets:
        if reset.after != reset.wanted:
            say(f"{reset.topic}-{reset.partition} has no offset {reset.wanted}: its nearest end is {reset.after}")
