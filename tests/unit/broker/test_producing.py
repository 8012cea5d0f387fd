"""What may be produced to, and with which acks."""

from __future__ import annotations

from typing import cast

import pytest

from ottla_broker.producing import append, check_acks
from ottla_broker.replica import Replica
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS
from ottla_core.slices import Slice


class Untouched:
    """A replica that must not be written to."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_clients_do_not_write_to_internal_topics(topic: str) -> None:
    with pytest.raises(OttlaError) as refused:
        append(cast(Replica, Untouched(topic)), b"", 1, Slice())
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.rule(66)
def test_acks() -> None:
    for acks in (0, 1, -1):
        check_acks(acks)
    for acks in (-2, 2, 3):
        with pytest.raises(OttlaError) as refused:
            check_acks(acks)
        assert refused.value.code == ErrorCode.INVALID_REQUIRED_ACKS
