"""How a load test reaches its cluster, and whom it sends a password."""

from __future__ import annotations

from pathlib import Path

import pytest
from loadtest.rows.clients import reach_of

from ottla.errors import ConfigError


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    settings = 'bootstrap.servers = "{0}:1"\nssl.ca.location = "{0}.pem"\nsecurity.protocol = "SSL"\n'
    texts = (f"[profiles.{name}]\n{settings.format(name)}" for name in ("one", "two"))
    file.write_text("".join(texts))
    monkeypatch.setenv("OTTLA_CONFIG", str(file))
    monkeypatch.setenv("OTTLA_PROFILE", "one")


def test_the_environment_names_the_profile_unless_the_command_does() -> None:
    assert reach_of(None, "").bootstrap == "one:1"
    assert reach_of(None, "two").bootstrap == "two:1"


def test_an_address_in_the_command_gets_no_login_of_the_environment_s_profile() -> None:
    reach = reach_of("elsewhere:1", "")
    assert (reach.bootstrap, dict(reach.config)) == ("elsewhere:1", {})
    assert reach_of("elsewhere:1", "two").config["security.protocol"] == "SSL"


def test_without_a_profile_the_sdk_finds_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_PROFILE", "")
    assert reach_of(None, "").bootstrap is None


def test_a_profile_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ConfigError, match="has no profile 'three'"):
        reach_of(None, "three")
