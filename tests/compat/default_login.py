"""Gives every client of the SDK a login and TLS, in this process and in those that it starts.

The tests pass neither `login=` nor `tls=`. So a run with logins names a folder in an environment variable, as
peers/security.py has it, and puts `tests/compat/hook` on PYTHONPATH. Each Python process imports its `sitecustomize`,
which lets a transport without security have that of the folder. No other part of the SDK is changed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from peers.security import VARIABLE, librdkafka
from tests.regressions.injection import instead_of
from tests.regressions.injector import Notes, install

ROOT: Final = Path(__file__).resolve().parents[2]
_TRANSPORT: Final = "ottla.client.kafka.transport:KafkaTransport.__init__"


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which a process and its children have the security in `folder`. It is written later."""
    path = [str(ROOT / "tests/compat/hook"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {VARIABLE: str(folder), "PYTHONPATH": os.pathsep.join(path)}


def install_from_environment() -> None:
    """Do nothing unless the environment names a folder."""
    if VARIABLE in os.environ:
        install([instead_of(_TRANSPORT, _with_security)], Notes(Path(os.devnull)))


def _with_security(original: Any, self: Any, client_id: str, *given: Any) -> None:
    from ottla.client.security.names import merged_security
    from ottla.client.security.security import PLAINTEXT

    security = given[0] if given else PLAINTEXT
    if security == PLAINTEXT and (settings := librdkafka()):
        security = merged_security(None, None, settings)
    original(self, client_id, security)
