"""The matrix with security: brokers with TLS, logins and ACLs, and the clients unchanged but for their settings.

`python -m tests.compat --secure` runs `python -m tests.compat.secured`, a process of its own. Its clients find their
security where peers/security.py says. The clusters that the tests start get theirs here, unless a test gives them one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from peers import security
from tests.compat import default_login
from tests.regressions.injection import instead_of
from tests.regressions.injector import Notes, install

if TYPE_CHECKING:
    from ottla_stack.cluster import Cluster

_SUPPORT: Final = default_login.ROOT / "tests/support"
_CLUSTER: Final = "ottla_stack.cluster:Cluster"


def is_secured() -> bool:
    """Return whether this process is such a run."""
    return security.VARIABLE in os.environ


def run(arguments: Sequence[str]) -> int:
    """Run the matrix in a process whose clients, and those that it starts, have security. Return its exit code."""
    with tempfile.TemporaryDirectory(prefix="ottla-secured-") as folder:
        environment = {**os.environ, **default_login.environment(Path(folder) / "client")}
        environment["PYTHONPATH"] += f"{os.pathsep}{_SUPPORT}"
        command = [sys.executable, "-m", "tests.compat.secured", *arguments]
        return subprocess.run(command, env=environment, cwd=default_login.ROOT, check=False).returncode


def _main(arguments: list[str]) -> int:
    from cluster_security import Security

    folder = Path(os.environ[security.VARIABLE])
    secured = Security(folder.parent / "cluster")
    security.write(folder, secured.of_client())

    with_their_own: weakref.WeakSet[Cluster] = weakref.WeakSet()

    def with_security(original: Any, cluster: Cluster, **given: Any) -> None:
        if "broker_settings" in given:
            with_their_own.add(cluster)
        original(cluster, **{"broker_settings": secured.of_brokers, **given})

    def with_acls(original: Any, cluster: Cluster) -> Cluster:
        original(cluster)
        if cluster in with_their_own:
            return cluster
        try:
            secured.allow(cluster.bootstrap)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    # Before anybody has imported it.
    install(
        [instead_of(f"{_CLUSTER}.__init__", with_security), instead_of(f"{_CLUSTER}.start", with_acls)],
        Notes(Path(os.devnull)),
    )
    from tests.compat.__main__ import run_matrix

    return run_matrix(arguments)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
