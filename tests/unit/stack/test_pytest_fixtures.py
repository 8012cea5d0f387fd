"""What the fixtures for tests of applications do on a machine that has no time."""

from typing import Any, cast

import pytest

import ottla
from ottla.errors import error_from_code
from ottla_stack import pytest_plugin


class Admin:
    """An Admin of a cluster whose broker has lost its lease and has one again at the third call."""

    def __init__(self, code: int) -> None:
        self.topics = self
        self.calls = 0
        self._code = code

    def create(self, name: str, **_: Any) -> None:
        self.calls += 1
        if self.calls < 3:
            raise error_from_code(self._code, "replication factor 1 is not possible: the number of live brokers is 0")


@pytest.mark.story("fixture-without-live-brokers")
def test_a_topic_is_created_once_a_broker_lives() -> None:
    admin = Admin(ottla.ErrorCode.INVALID_REPLICATION_FACTOR)
    pytest_plugin.create_when_brokers_live(cast("ottla.Admin", admin), "t")
    assert admin.calls == 3


def test_what_waiting_does_not_mend_is_raised_at_once_and_nobody_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = Admin(ottla.ErrorCode.INVALID_TOPIC_EXCEPTION)
    with pytest.raises(ottla.OttlaError):
        pytest_plugin.create_when_brokers_live(cast("ottla.Admin", admin), "t")
    assert admin.calls == 1
    monkeypatch.setattr(pytest_plugin, "_LIVE_LIMIT_S", 0.0)
    with pytest.raises(ottla.OttlaError, match="live brokers"):
        pytest_plugin.create_when_brokers_live(
            cast("ottla.Admin", Admin(ottla.ErrorCode.INVALID_REPLICATION_FACTOR)), "t"
        )
