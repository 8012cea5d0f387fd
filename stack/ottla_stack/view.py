"""The stack as rows, which `ottla up` shows live and `ottla status` once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from ottla_cli.output import Listing, table_of
from ottla_stack.state import ProcessIdentity, StackState

_COLUMNS: Final = ("name", "pid", "port", "kafka_port", "admin_port", "resident_mb", "seconds_up", "restarts")


def stack_rows(state: StackState) -> list[dict[str, Any]]:
    return [
        {
            "name": process.name,
            "pid": process.identity.pid,
            "port": process.port,
            "kafka_port": process.kafka_port or None,
            "admin_port": process.admin_port or None,
            "resident_mb": round(resident_mb(process.identity.pid)),
            "seconds_up": round(seconds_up(process.identity)),
            "restarts": process.restarts,
        }
        for process in state.processes
    ]


def stack_listing(state: StackState) -> Listing:
    return Listing("stack/v1", stack_rows(state), _COLUMNS)


def stack_table(state: StackState) -> Table:
    return table_of(stack_listing(state))


def resident_mb(pid: int) -> float:
    """Return resident memory in units of 10^6 bytes, or 0 if the process is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def seconds_up(identity: ProcessIdentity) -> float:
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return since_boot - identity.started / os.sysconf("SC_CLK_TCK")
