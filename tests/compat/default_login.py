"""Gives every client a login and TLS, in this process and in those that it starts.

The tests pass neither `login=` nor `tls=`. So a run with logins names a file in an environment variable, and puts
`tests/compat/on_kafka/hook` on PYTHONPATH. Each Python process imports its `sitecustomize`, which lets a transport
without security log in. No other part of the SDK is changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.regressions.injection import instead_of
from tests.regressions.injector import Notes, install

ROOT: Final = Path(__file__).resolve().parents[3]
LOGIN: Final = "TESTS_ON_KAFKA_LOGIN"
"""The environment variable with the path of the file of the login. No file means no login."""
_TRANSPORT: Final = "ottla.client.kafka.transport:KafkaTransport.__init__"


def environment(file: Path) -> dict[str, str]:
    """Return the variables with which a process and its children log in as `file` says. It is written later."""
    path = [str(ROOT / "tests/compat/on_kafka/hook"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {LOGIN: str(file), "PYTHONPATH": os.pathsep.join(path)}


def write(user: str, password: str, ca: Path) -> None:
    """Write the file of the login. `ca` is the file of trusted certificates."""
    login = {"user": user, "password": password, "ca": str(ca)}
    Path(os.environ[LOGIN]).write_text(json.dumps(login))


def said() -> Mapping[str, str] | None:
    """Return the user, the password and the path of the trusted certificates; None if clients do not log in."""
    file = os.environ.get(LOGIN)
    found: Mapping[str, str] | None = json.loads(Path(file).read_text()) if file and Path(file).exists() else None
    return found


def install_from_environment() -> None:
    """Do nothing unless the environment names a login."""
    if LOGIN in os.environ:
        install([instead_of(_TRANSPORT, _with_login)], Notes(Path(os.devnull)))


def _with_login(original: Any, self: Any, client_id: str, *given: Any) -> None:
    from ottla.client.security.logins import Scram
    from ottla.client.security.security import PLAINTEXT, Security
    from ottla.client.security.tls import Tls

    security = given[0] if given else PLAINTEXT
    if security == PLAINTEXT and (login := said()) is not None:
        security = Security(Scram(login["user"], login["password"]), Tls(ca=login["ca"]))
    original(self, client_id, security)
