"""kafkajs: a driver in JavaScript beside the packages that it needs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from peers.driver import Driver
from peers.place import installed, program, run

_HERE: Final = Path(__file__).parent
_PACKAGES: Final = [_HERE / "package.json", _HERE / "package-lock.json"]
_DRIVER: Final = _HERE / "driver.js"
_SOURCES: Final = [_DRIVER, _HERE / "range_assigner.js"]


def kafkajs() -> Driver:
    """Raises PeerError where there is no Node.js, or no package."""
    node, npm = program("node", "nodejs"), program("npm", "npm")

    def install(folder: Path) -> None:
        for path in (*_PACKAGES, *_SOURCES):
            shutil.copy(path, folder)
        run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)

    return Driver([node, str(installed("kafkajs", [*_PACKAGES, *_SOURCES], install) / _DRIVER.name)])
