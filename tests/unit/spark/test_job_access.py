"""How a job reaches its cluster, and whom it sends a password."""

from __future__ import annotations

import pytest

import job

ADDRESSES = "kafka.bootstrap.servers"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_PROFILE", "of-environment")
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "of-environment:1")


def access(*words: str) -> dict[str, str]:
    return job.access(job.parser(None).parse_args(words))


def test_the_environment_names_the_profile_unless_the_command_does() -> None:
    assert access() == {"profile": "of-environment"}
    assert access("--profile", "mine") == {"profile": "mine"}


def test_an_address_in_the_command_gets_no_login_of_the_environment_s_profile() -> None:
    assert access("--bootstrap", "elsewhere:1") == {ADDRESSES: "elsewhere:1"}
    assert access("--bootstrap", "mine:1", "--profile", "mine") == {ADDRESSES: "mine:1", "profile": "mine"}


def test_without_a_profile_the_address_is_that_of_the_environment_or_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTTLA_PROFILE", "")
    assert access() == {ADDRESSES: "of-environment:1"}
    monkeypatch.delenv("OTTLA_BOOTSTRAP")
    assert access() == {ADDRESSES: "localhost:9092"}
