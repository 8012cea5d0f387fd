"""The topic of decisions is created by the first driver that needs it."""

from __future__ import annotations

from typing import Any, cast

import pytest

import ottla
from ottla.errors import ErrorCode, error_from_code
from pyspark_ottla import decision_log
from pyspark_ottla.decision_log import create_topic


class Topics:
    """Creates a topic at the third try, when all brokers are back."""

    def __init__(self, code: ErrorCode) -> None:
        self.topics = self
        self.tries = 0
        self._code = code

    def exists(self, name: str) -> bool:
        return self.tries == 3

    def create(self, name: str, **settings: Any) -> None:
        self.tries += 1
        if self.tries < 3:
            raise error_from_code(self._code, "replication factor 3 is not possible: the number of live brokers is 2")


@pytest.mark.story("spark-no-decision-while-a-broker-restarts")
def test_a_driver_waits_for_the_brokers_that_the_topic_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "_POLL_S", 0.0)
    cluster = Topics(ErrorCode.INVALID_REPLICATION_FACTOR)
    create_topic(cast("ottla.Admin", cluster))
    assert cluster.tries == 3


def test_a_topic_that_can_not_be_created_is_an_error_at_once() -> None:
    cluster = Topics(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ottla.OttlaError):
        create_topic(cast("ottla.Admin", cluster))
    assert cluster.tries == 1
