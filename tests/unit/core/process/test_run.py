"""What a service refuses before it starts: settings that others would have to find out about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla_broker.__main__
import ottla_controller.__main__
from ottla_broker.config import BrokerConfig
from ottla_core import telemetry
from ottla_core.errors import OttlaError
from ottla_core.process import lifecycle, run
from ottla_core.process.run import check_settings


@pytest.fixture(autouse=True)
def _never_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that does start is over at once."""
    monkeypatch.setattr(lifecycle, "run", lambda build: 0)


MAINS = pytest.mark.parametrize("main", [ottla_broker.__main__.main, ottla_controller.__main__.main])
EVERY_INTERFACE = ["0.0.0.0", "::", "[::]", ""]


@MAINS
def test_a_service_that_would_register_every_interface_does_not_start(
    main: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["service", "--host=0.0.0.0"])
    assert main() == 2
    said = capsys.readouterr().err
    assert "host='0.0.0.0' means every interface, and no client can connect to that address (INVALID_CONFIG)" in said
    assert "set advertised_host" in said


@MAINS
def test_a_service_without_an_address_of_etcd_does_not_start(
    main: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["service", "--etcd=,"])
    assert main() == 2
    assert (
        "the setting etcd contains no address (INVALID_CONFIG); set it to one or more host:port"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("address", EVERY_INTERFACE)
def test_what_can_be_bound_and_not_dialled_has_to_be_advertised_by_another_name(address: str) -> None:
    with pytest.raises(OttlaError, match=f"^host='{address}' means".replace("[", r"\[")):
        check_settings(BrokerConfig(host=address))
    check_settings(BrokerConfig(host=address, advertised_host="broker-0", insecure=True))
    check_settings(BrokerConfig())


def test_to_advertise_every_interface_is_refused_too() -> None:
    with pytest.raises(OttlaError, match=r"^advertised_host='0\.0\.0\.0'"):
        check_settings(BrokerConfig(advertised_host="0.0.0.0"))


@pytest.mark.parametrize("warning", ["", "other users of this host can use /data/t-0"])
def test_a_data_directory_that_is_open_to_others_is_in_the_log(
    warning: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Path] = []

    def warning_of(directory: Path) -> str:
        asked.append(directory)
        return warning

    monkeypatch.setattr(run, "warning_of", warning_of)
    monkeypatch.setattr(telemetry, "configure_logging", lambda *_, **named: None)
    monkeypatch.setattr(sys, "argv", ["service", "--data-dir=/data"])
    assert ottla_broker.__main__.main() == 0
    monkeypatch.setattr(sys, "argv", ["service"])
    assert ottla_controller.__main__.main() == 0
    assert asked == [Path("/data")]
    assert caplog.messages == [warning] * bool(warning)
