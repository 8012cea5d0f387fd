"""The run of a service's process, from its command line to its exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Protocol, TypeVar, cast

from ottla_core import telemetry
from ottla_core.cluster import etcd_security
from ottla_core.cluster.etcd_security import EtcdSecurity, EtcdSettings
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.files.private_files import private_files, warning_of
from ottla_core.files.secret_file import NO_FILE
from ottla_core.host_port import HostPort
from ottla_core.process import lifecycle, service_config
from ottla_core.process.exposure import Endpoint, check_exposure
from ottla_core.text.printable import printable

_log = logging.getLogger(__name__)


class ServiceSettings(Protocol):
    """The settings that every service has; see the `config` of each. Services of a cluster have `etcd`, too. A broker
    has `kafka_endpoints` and a `data_dir`."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def advertised_host(self) -> str: ...
    @property
    def admin_host(self) -> str: ...
    @property
    def admin_token_file(self) -> PurePath: ...
    @property
    def internal_tls_certificate(self) -> PurePath: ...
    @property
    def insecure(self) -> bool: ...
    @property
    def log_level(self) -> str: ...


Settings = TypeVar("Settings", bound=ServiceSettings)


def run_service(kind: str, settings_type: type[Settings], build: Callable[[Settings], lifecycle.ServiceApp]) -> int:
    """Read the settings of section `kind` and run until a signal or a failure. Return 0 or 1, or 2 for bad settings."""
    try:
        settings = service_config.load(settings_type, kind, sys.argv[1:])
        check_settings(settings)
    except OttlaError as error:
        print(printable(f"ottla-{kind}: {error}"), file=sys.stderr)
        return 2
    telemetry.configure_logging(f"{kind}-{settings.node_id}", level=settings.log_level)
    with private_files():
        data: PurePath | None = getattr(settings, "data_dir", None)
        if data is not None and (warning := warning_of(Path(data))):
            _log.warning("%s", warning)
        for warning in getattr(settings, "warnings", ()):
            _log.warning("%s", warning)
        return lifecycle.run(lambda: build(settings))


def check_settings(settings: ServiceSettings) -> None:
    """Raise INVALID_CONFIG for mistakes that would be found out only later, and by others.

    An address that means "every interface" can be bound but not dialled. Kafka refuses to advertise it, too.
    """
    advertised = settings.advertised_host or settings.host
    if HostPort(advertised, 0).is_every_interface:
        name = "advertised_host" if settings.advertised_host else "host"
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"{name}={advertised!r} means every interface, and no client can connect to that address",
            hint="set advertised_host to the name or address at which clients and other services reach this service",
        )
    if hasattr(settings, "etcd"):
        _check_etcd(cast("EtcdSettings", settings), insecure=settings.insecure)
    check_exposure(_endpoints(settings), insecure=settings.insecure)


def _check_etcd(settings: EtcdSettings, *, insecure: bool) -> None:
    if not settings.etcd:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            "the setting etcd contains no address",
            hint="set it to one or more host:port addresses, separated by commas",
        )
    security = EtcdSecurity.of(settings)
    in_plaintext = [e for e in settings.etcd if security.user and not etcd_security.has_tls(e)]
    exposed = [endpoint for endpoint in in_plaintext if not etcd_security.target(endpoint).is_loopback]
    if exposed and not insecure:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"the password of etcd_user would go to {etcd_security.target(exposed[0])} in plaintext",
            hint="write https:// before the address, or set insecure=true (--insecure) if you trust the network",
        )
    security.check_files()


def _endpoints(settings: ServiceSettings) -> Iterator[Endpoint]:
    yield from getattr(settings, "kafka_endpoints", ())
    yield Endpoint(
        "gRPC, which services speak to each other,",
        settings.host,
        "" if settings.internal_tls_certificate != NO_FILE else "it would serve everyone in plaintext",
        "set internal_tls_certificate, internal_tls_key and internal_tls_ca",
    )
    yield Endpoint(
        "the admin port",
        settings.admin_host,
        "" if settings.admin_token_file != NO_FILE else "it would answer everyone without a token",
        "set admin_token_file",
    )
