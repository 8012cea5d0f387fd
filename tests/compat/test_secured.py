"""The matrix with security, in short: `make compat SECURE=1` runs all of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.compat.clients import CLIENTS
from tests.compat.default_login import ROOT
from tests.compat.secured import is_secured

_TESTS = ("test_clients.py::test_an_idempotent_producer", "test_groups.py::test_a_group_of_all_clients")
_LIMIT_S = 540.0


@pytest.mark.skipif(is_secured(), reason="it starts this run")
@pytest.mark.timeout(600)
def test_clients_write_and_share_a_group_at_brokers_with_security() -> None:
    names = [listed.name for listed in CLIENTS if listed.always]
    command = [sys.executable, "-m", "tests.compat", "--secure", "--clients", ",".join(names)]
    done = subprocess.run(
        [*command, "--only", ",".join(_TESTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["secure"]
    assert told["green"] == told["cells"] >= 2 * len(names)
