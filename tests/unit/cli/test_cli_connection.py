"""How a command reaches the cluster: fails at once where nobody listens, hands the SDK what -X and --timeout say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.admin import admin as admin_module
from ottla.errors import ConfigError, ConnectError
from ottla_cli import connection
from ottla_cli.connection import check_listening, open_admin, with_timeout
from ottla_cli.settings import Settings


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Addresses that refuse connections; an Admin only remembers what it was made with."""
    refusing: set[str] = set()
    monkeypatch.setattr(connection, "_refuses", lambda address: address in refusing)

    def make(bootstrap: str | None, config: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(bootstrap=bootstrap, config=config)

    monkeypatch.setattr(admin_module, "Admin", make)
    return refusing


def test_a_command_fails_at_once_only_where_every_address_refuses(
    refusing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing.add("a:1")
    check_listening(Settings(bootstrap="a:1,b:2"))
    refusing.add("b:2")
    with pytest.raises(ConnectError, match="no broker listens at a:1 or b:2") as caught:
        open_admin(Settings(bootstrap="a:1,b:2"))
    assert "ottla up" in caught.value.hint
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "b:2")
    with pytest.raises(ConnectError, match="at b:2"):
        check_listening(Settings())
    check_listening(Settings(client_config={"bootstrap.servers": "c:3"}))
    with pytest.raises(ConfigError):
        check_listening(Settings(bootstrap="no address"))


@pytest.mark.usefixtures("refusing")
def test_the_timeout_is_a_setting_that_x_can_overrule() -> None:
    assert with_timeout({"a": 1}, 2.5, "b.ms", "c.ms") == {"a": 1, "b.ms": 2500, "c.ms": 2500}
    assert with_timeout({"b.ms": 1}, 2.5, "b.ms") == {"b.ms": 1}
    made: Any = open_admin(Settings("a:1", timeout=3.0, client_config={"client.id": "me"}))
    assert (made.bootstrap, made.config) == ("a:1", {"request.timeout.ms": 3000, "client.id": "me"})


@pytest.mark.usefixtures("refusing")
def test_settings_of_another_client_are_left_to_it() -> None:
    settings = Settings("a:1", client_config={"linger.ms": "5", "client.id": "me"})
    lenient: Any = open_admin(settings, strict=False)
    assert "linger.ms" not in lenient.config
    assert lenient.config["client.id"] == "me"
    strict: Any = open_admin(settings)
    assert strict.config["linger.ms"] == "5", "so that it is refused by name"
