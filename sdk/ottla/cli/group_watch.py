"""`ottla group watch`: the lag of a group, again and again."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from ottla.cli.failures import say, sentence
from ottla.cli.group_lag import KIND, lag_item, show_lag
from ottla.cli.output import Listing, form_for, write
from ottla.cli.settings import Form, Settings
from ottla.client.units import parse_duration
from ottla.errors import OttlaError, config_error

if TYPE_CHECKING:
    from ottla.admin.admin import Admin

_CLEAR: Final = "\033[H\033[J"
"""To the top of the terminal, and nothing below."""


def watch_lag(admin: Admin, name: str, settings: Settings, *, every: str, times: int | None) -> None:
    """Show it at each interval, `times` or for ever. A coordinator that is away is reported, and waited for."""
    form = form_for(settings.output, sys.stdout)
    if form == "json":
        raise config_error("-o json is one object, which would never end", hint="use -o jsonl")
    pause_s = parse_duration(every, "--every")
    looked = 0
    while True:
        _look(admin, name, form)
        looked += 1
        if looked == times:
            return
        time.sleep(pause_s)


def _look(admin: Admin, name: str, form: Form) -> None:
    try:
        item = {"at_ms": time.time_ns() // 1_000_000, **lag_item(admin, name)}
    except OttlaError as error:
        if not error.retriable:
            raise
        say(f"ottla: {sentence(error)}")
        return
    if form != "table":
        write(Listing(KIND, [item]), form)
        sys.stdout.flush()
        return
    if sys.stdout.isatty():
        print(_CLEAR, end="")
    show_lag(item)
    sys.stdout.flush()
