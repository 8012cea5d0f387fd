"""What a connection keeps of its client's decisions."""

from __future__ import annotations

from ottla_broker.kafka.authorization.access import KeptDecisions


def test_decisions_of_one_principal_are_not_those_of_another() -> None:
    kept = KeptDecisions()
    anonymous = kept.of("User:ANONYMOUS", "10.0.0.1")
    assert kept.of("User:ANONYMOUS", "10.0.0.1") is anonymous
    assert kept.of("User:alice", "10.0.0.1") is not anonymous
