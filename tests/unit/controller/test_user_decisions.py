"""Users' SCRAM credentials are stored and deleted by decisions of the controller."""

from __future__ import annotations

from typing import Any

import pytest
from images import image_of

from ottla_controller.machines import users
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.users import ScramChange, decide_alter_scram
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.scram import Mechanism, ScramCredential

SHORT: Mechanism = "SCRAM-SHA-256"
LONG: Mechanism = "SCRAM-SHA-512"


def credential(mechanism: Mechanism = SHORT, seed: bytes = b"a") -> ScramCredential:
    return ScramCredential.of_salted(mechanism, seed * 32, salt=b"salt", iterations=4096)


def stored(user: str, mechanism: Mechanism = SHORT, seed: bytes = b"a") -> ScramChange:
    return ScramChange(user, mechanism, credential(mechanism, seed))


def deleted(user: str, mechanism: Mechanism = SHORT) -> ScramChange:
    return ScramChange(user, mechanism, None)


def after(image: ClusterImage, decision: Decision[Any]) -> ClusterImage:
    return image.with_changes([write.change for write in decision.writes], image.revision + 1)


def having(*changes: ScramChange) -> ClusterImage:
    image = image_of(1)
    return after(image, decide_alter_scram(image, changes))


def codes(decision: Decision[dict[str, OttlaError | None]]) -> dict[str, ErrorCode | None]:
    return {user: None if error is None else error.code for user, error in decision.response.items()}


def test_a_user_has_a_credential_for_each_mechanism_and_the_newest_counts() -> None:
    image = having(stored("alice"), stored("alice", LONG))
    decision = decide_alter_scram(image, [stored("alice", seed=b"b"), deleted("alice", LONG)])
    assert codes(decision) == {"alice": None}
    assert after(image, decision).scram == {("alice", SHORT): credential(seed=b"b")}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (deleted("bob"), ErrorCode.RESOURCE_NOT_FOUND),
        (stored(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (stored("x" * 1001), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_rejection_of_one_user_does_not_keep_the_others_from_success(change: ScramChange, code: ErrorCode) -> None:
    image = having(stored("alice"))
    decision = decide_alter_scram(image, [change, deleted("alice")])
    assert codes(decision) == {change.user: code, "alice": None}
    assert not after(image, decision).scram


def test_all_changes_of_a_user_are_made_or_none() -> None:
    image = having(stored("alice"))
    decision = decide_alter_scram(image, [deleted("alice"), deleted("alice", LONG)])
    assert codes(decision) == {"alice": ErrorCode.RESOURCE_NOT_FOUND}
    assert not decision.writes


def test_one_credential_is_not_changed_twice() -> None:
    decision = decide_alter_scram(image_of(1), [stored("alice"), stored("alice", seed=b"b")])
    assert codes(decision) == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert not decision.writes


def test_the_number_of_credentials_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MAX_CREDENTIALS", 2)
    image = having(stored("alice"))
    decision = decide_alter_scram(image, [stored("bob"), stored("carol"), stored("alice", seed=b"b")])
    assert codes(decision) == {"bob": None, "carol": ErrorCode.POLICY_VIOLATION, "alice": None}


def test_the_number_of_credentials_that_one_request_changes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MAX_PER_REQUEST", 1)
    with pytest.raises(OttlaError, match="changes 2 credentials, and one request changes 1 at most"):
        decide_alter_scram(image_of(1), [stored("alice"), stored("bob")])
