"""The tests that franz-go has of its own, built once from its module: they come with it through Go's module proxy."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from peers.go.toolchain import MOD, go
from peers.place import installed, run

_MODULE: Final = "github.com/twmb/franz-go"


def kgo_tests() -> Path:
    """Return a program that runs the tests of franz-go's package kgo. Raises PeerError where it can't be had."""

    def install(folder: Path) -> None:
        version = re.search(rf"^\s*{re.escape(_MODULE)} (v\S+)", MOD.read_text(), re.MULTILINE)
        assert version is not None
        run([go(), "mod", "download", f"{_MODULE}@{version[1]}"], cwd=MOD.parent, GOTOOLCHAIN="local")
        where = subprocess.run(
            [go(), "list", "-m", "-f", "{{.Dir}}", _MODULE], cwd=MOD.parent, capture_output=True, text=True, check=True
        ).stdout.strip()
        module = folder / "module"
        shutil.copytree(where, module, copy_function=shutil.copyfile)  # the cache is read-only, the copy is not
        for path in (module, *module.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        run(
            [go(), "test", "-c", "-o", folder / "kgo.test", "./pkg/kgo"],
            cwd=module,
            GOTOOLCHAIN="local",
            GOFLAGS="-mod=mod",
        )
        shutil.rmtree(module)

    return installed("franz-go-tests", [MOD], install) / "kgo.test"
