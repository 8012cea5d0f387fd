"""The stack as a table: what `ottla up` shows live and `ottla status` once."""

from __future__ import annotations

import os
from pathlib import Path

from rich.table import Table

from ottla_stack.state import ProcessIdentity, StackState


def stack_table(state: StackState) -> Table:
    table = Table("service", "pid", "port", "admin", "memory", "up", "restarts", box=None, pad_edge=False)
    for process in state.processes:
        table.add_row(
            process.name,
            str(process.identity.pid),
            str(process.port),
            str(process.admin_port or ""),
            f"{resident_mb(process.identity.pid):.0f} MB",
            f"{seconds_up(process.identity):.0f} s",
            str(process.restarts or ""),
        )
    return table


def resident_mb(pid: int) -> float:
    """Resident memory in units of 10^6 bytes; 0 where the process is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def seconds_up(identity: ProcessIdentity) -> float:
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return since_boot - identity.started / os.sysconf("SC_CLK_TCK")
