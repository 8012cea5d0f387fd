"""How a command reaches the cluster: the SDK's clients, made from the shared options.

A command fails at once where no broker listens; the SDK alone would retry until its deadline.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.client.security.names import SECURITY_NAMES
from ottla.client.settings import ADMIN_NAMES, bootstrap_addresses
from ottla.errors import ConnectError, ErrorCode, OttlaError
from ottla_cli.failures import sentence
from ottla_cli.settings import Settings
from ottla_cli.terminal import say
from ottla_core.host_port import HostPort

if TYPE_CHECKING:
    from ottla.admin.admin import Admin

Result = TypeVar("Result")

ASIDE_S: Final = 2.0
"""How long a command waits for information that it can do without."""

_CONNECT_LIMIT_S: Final = 1.0


def open_admin(settings: Settings, *, strict: bool = True) -> Admin:
    """Open an Admin. With `strict=False` it ignores settings of -X that are for another client."""
    from ottla.admin.admin import Admin

    check_listening(settings)
    known = ADMIN_NAMES.keys() | SECURITY_NAMES
    config = {name: value for name, value in settings.config.items() if strict or name in known}
    return Admin(settings.bootstrap, config=with_timeout(config, settings.timeout, "request.timeout.ms"))


def with_timeout(config: Mapping[str, Any], timeout: float, *names: str) -> dict[str, Any]:
    """Return `config`, with --timeout for each of `names` that -X does not set."""
    return {**{name: round(timeout * 1000) for name in names}, **config}


def or_nothing(call: Callable[[], Result]) -> Result | None:
    """Return the result of `call`. If it fails, report why and return None, so that the rest can still be shown."""
    try:
        return call()
    except OttlaError as error:
        say(f"ottla: {sentence(error)}")
        return None


def check_listening(settings: Settings) -> None:
    """Raise ConnectError if every address refuses the connection."""
    addresses = bootstrap_addresses(settings.addresses)
    if all(_refuses(address) for address in addresses):
        raise ConnectError(
            ErrorCode.NETWORK_EXCEPTION,
            f"no broker listens at {' or '.join(addresses)}",
            hint="correct bootstrap.servers in the profile, or set -b to a broker's address"
            if settings.profile and not settings.bootstrap
            else "start a cluster with `ottla up`, or set -b (or OTTLA_BOOTSTRAP) to a broker's address",
        )


def _refuses(address: str) -> bool:
    try:
        socket.create_connection(HostPort.parse(address), timeout=_CONNECT_LIMIT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # a name that does not resolve, a host that is silent: the SDK explains these
        return False
    return False
