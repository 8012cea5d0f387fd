"""The users of clients in containers: whom they may disturb, and what the command says where it can't work."""

from __future__ import annotations

from pathlib import Path

import pytest
from loadtest.locust import topics

from ottla_stack import container_users
from ottla_stack.container_users import ACLS, LOAD, LOAD_PREFIX, SPARK, main


def test_the_user_of_a_load_test_may_use_what_begins_with_its_prefix_and_nothing_else() -> None:
    assert {(acl.resource.name, acl.resource.prefixed, acl.principal) for acl in ACLS[LOAD]} == {
        (LOAD_PREFIX, True, f"User:{LOAD}")
    }
    for topic in (topics.PRODUCE, topics.END_TO_END, topics.REPLAY, topics.CHURN):
        assert topic.startswith(LOAD_PREFIX)


def test_the_user_of_spark_may_do_nothing_at_first() -> None:
    assert ACLS[SPARK] == ()


def test_outside_its_container_the_command_says_which_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(container_users, "_HANDED_OUT", tmp_path)
    assert main([]) == 1
    assert f"{tmp_path}/client/clients.toml does not exist" in capsys.readouterr().err
    assert main(["again"]) == 2
