"""Where a service listens without protection: nowhere but on loopback, unless it is told to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla_broker.__main__
import ottla_controller.__main__
import ottla_group_coordinator.__main__
import ottla_mirror.__main__
import ottla_txn_coordinator.__main__
from ottla_core.errors import OttlaError
from ottla_core.host_port import HostPort
from ottla_core.process import lifecycle
from ottla_core.process.exposure import Endpoint, check_exposure

SERVICES = pytest.mark.parametrize(
    "main",
    [
        module.main
        for module in (
            ottla_broker.__main__,
            ottla_controller.__main__,
            ottla_group_coordinator.__main__,
            ottla_mirror.__main__,
            ottla_txn_coordinator.__main__,
        )
    ],
    ids=lambda main: main.__module__,
)
ELSEWHERE = "10.1.2.3"


@pytest.fixture(autouse=True)
def _never_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that does start is over at once."""
    monkeypatch.setattr(lifecycle, "run", lambda build: 0)


@pytest.fixture
def refusal(
    main: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Start a service with these arguments. Return what it says if it refuses to start, or else nothing."""

    def start(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["service", *arguments])
        code, said = main(), capsys.readouterr().err
        assert (code == 2) == bool(said)
        assert said.count("\n") <= 1, "the refusal is one line"
        return said

    return start


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.255.0.9", "::1", "[::1]", "::ffff:127.0.0.1", "localhost", "LOCALHOST"]
)
def test_loopback_is_what_only_this_host_reaches(host: str) -> None:
    assert HostPort(host, 9092).is_loopback


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            "0.0.0.0",
            "::",
            "[::]",
            "10.0.0.1",
            "128.0.0.1",
            "::2",
            "::ffff:10.0.0.1",
            "fe80::1%lo",
            "127.1",
            "2130706433",
        ),
        *("localhost.example.org", "my-localhost", "broker-0", "ip6-localhost", "127.0.0.1.example.org"),
    ],
)
def test_every_other_address_and_name_may_be_reached_by_other_hosts(host: str) -> None:
    assert not HostPort(host, 9092).is_loopback


def test_what_is_protected_may_listen_everywhere() -> None:
    check_exposure([Endpoint("the port", ELSEWHERE, danger="")], insecure=False)
    exposed = [Endpoint("the port", ELSEWHERE, danger=""), Endpoint("the other port", ELSEWHERE, "it is open")]
    with pytest.raises(OttlaError, match=r"^the other port would listen"):
        check_exposure(exposed, insecure=False)
    check_exposure(exposed, insecure=True)


@SERVICES
def test_a_service_refuses_to_serve_a_network_in_plaintext(refusal: Callable[..., str]) -> None:
    said = refusal(f"--host={ELSEWHERE}")
    assert f"would listen on {ELSEWHERE}, which is not loopback, and it would serve" in said
    assert "in plaintext (INVALID_CONFIG); " in said
    assert "listen on 127.0.0.1, or set insecure=true (--insecure)" in said
    for arguments in [[], ["--insecure"], ["--insecure=true"], ["--insecure", "true"]]:
        assert not refusal("--host=127.0.0.1" if not arguments else f"--host={ELSEWHERE}", *arguments)
    assert refusal(f"--host={ELSEWHERE}", "--insecure=false")


@SERVICES
def test_a_service_with_a_certificate_may_serve_the_other_services_of_a_network(
    main: Callable[[], int], refusal: Callable[..., str]
) -> None:
    on_loopback = ["--kafka-listeners=PLAINTEXT://127.0.0.1:9092"] if main is ottla_broker.__main__.main else []
    arguments = [f"--host={ELSEWHERE}", *on_loopback]
    said = refusal(*arguments)
    assert "gRPC, which services speak to each other, would listen on" in said
    assert "set internal_tls_certificate, internal_tls_key and internal_tls_ca, listen on 127.0.0.1" in said
    assert not refusal(*arguments, "--internal-tls-certificate=service.pem")


@SERVICES
def test_a_service_refuses_to_show_a_network_its_metrics_without_a_token(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    said = refusal(f"--admin-host={ELSEWHERE}")
    assert f"the admin port would listen on {ELSEWHERE}, which is not loopback, and it would answer everyone" in said
    assert "set admin_token_file, listen on 127.0.0.1, or set insecure=true" in said
    assert not refusal(f"--admin-host={ELSEWHERE}", f"--admin-token-file={tmp_path / 'token'}")
    assert not refusal("--insecure", f"--admin-host={ELSEWHERE}")


@pytest.mark.parametrize("main", [ottla_broker.__main__.main])
@pytest.mark.parametrize(
    "arguments",
    [
        ["--kafka-listeners=EXTERNAL://:9092", f"--host={ELSEWHERE}"],
        ["--kafka-listeners=INTERNAL://127.0.0.1:19092,EXTERNAL://broker-0:9092"],
        ["--kafka-listeners=EXTERNAL://[::]:9092", "--kafka-advertised=EXTERNAL://broker-0:9092"],
    ],
)
def test_a_broker_names_the_kafka_listener_that_would_be_open(
    refusal: Callable[..., str], arguments: list[str]
) -> None:
    assert "the Kafka listener EXTERNAL would listen on" in refusal(*arguments)
    assert not refusal(*arguments, "--insecure")
