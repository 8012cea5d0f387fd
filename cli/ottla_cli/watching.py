"""Commands that refresh what they show: `ottla group watch`, `ottla mirror watch`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from ottla.client.units import parse_duration
from ottla.errors import OttlaError, config_error
from ottla_cli.failures import sentence
from ottla_cli.output import form_for
from ottla_cli.settings import Form, Settings
from ottla_cli.terminal import clear_screen, say


def watch(look: Callable[[Form], Callable[[], None]], settings: Settings, *, every: str, times: int | None) -> None:
    """Call `look` at each interval and show its result, `times` times or for ever. A service that is away is reported,
    and tried again."""
    form = form_for(settings.output, sys.stdout)
    if form == "json":
        raise config_error("-o json writes one object, which would never end", hint="use -o jsonl")
    pause_s = parse_duration(every, "--every")
    looked = 0
    while True:
        _look(look, form)
        looked += 1
        if looked == times:
            return
        time.sleep(pause_s)


def _look(look: Callable[[Form], Callable[[], None]], form: Form) -> None:
    try:
        show = look(form)
    except OttlaError as error:
        if not error.retriable:
            raise
        say(f"ottla: {sentence(error)}")
        return
    if form == "table":
        clear_screen()
    show()
    sys.stdout.flush()
