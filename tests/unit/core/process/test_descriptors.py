"""What a process may have open: as much as the system allows, and a warning in words where that is little."""

from __future__ import annotations

import logging
import resource

import pytest

from ottla_core.process import descriptors


class Limits:
    def __init__(self, soft: int, hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = (soft, hard)
        monkeypatch.setattr(resource, "getrlimit", lambda _: self.now)
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: setattr(self, "now", limits))


@pytest.mark.parametrize(
    ("soft", "hard", "limit", "logs"),
    [
        (1024, 524_288, 524_288, 4096),
        (1024, resource.RLIM_INFINITY, 1 << 20, 4096),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY, 4096),
        (20_000, 20_000, 20_000, 4096),
        (1 << 21, 1 << 22, 1 << 21, 4096),
    ],
)
def test_a_process_takes_what_it_may_have(
    soft: int, hard: int, limit: int, logs: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(soft, hard, monkeypatch)
    assert descriptors.raise_limit() == limit
    assert limits.now == (limit, hard)
    assert descriptors.for_logs() == logs
    assert not caplog.text


def test_too_few_are_warned_of_with_the_number_that_is_needed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Limits(512, 1024, monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert descriptors.raise_limit() == 1024
    assert "may open only 1024 files and connections" in caplog.text
    assert "ulimit -n 8192" in caplog.text
    assert descriptors.for_logs() == 512
