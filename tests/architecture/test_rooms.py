"""Where modules lie: the root of a package has few of them, and each package is known to whatever goes through all."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

import pytest
from sources import ROOT, listed
from tools import house

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
WHEEL = [Path(package) for package in PROJECT["hatch"]["build"]["targets"]["wheel"]["packages"]]
WORDS = {"clock", "errors", "forks", "host_port", "model", "plural", "routing", "telemetry", "transactions"}
"""What every part of the product speaks of. Whatever has a subject of its own has a folder."""

SERVICE = {"__main__", "app", "config", "listener_settings", "metrics", "service"}
"""The service itself. `config` reads `listener_settings`, and `app` puts the rest together."""


@pytest.mark.parametrize(
    ("package", "expected"), [("core/ottla_core", WORDS), ("services/broker/ottla_broker", SERVICE)]
)
def test_the_root_of_a_package_has_only_these_modules(package: str, expected: set[str]) -> None:
    found = {Path(name).stem for name in listed(f":(glob){package}/*.py")}
    assert found - {"__init__"} == expected, "a new module belongs in a folder by its subject"


def test_each_package_of_the_wheel_has_a_layer_and_is_judged_and_typed() -> None:
    names = {package.name for package in WHEEL}
    law = configparser.ConfigParser()
    law.read(ROOT / ".importlinter")
    assert set(law["importlinter"]["root_packages"].split()) == names
    assert {*house.PACKAGES, "ottla_proto"} == names
    assert {ROOT / folder for folder in PROJECT["hatch"]["build"]["dev-mode-dirs"]} == {ROOT / p.parent for p in WHEEL}
    typed = [ROOT / folder for folder in PROJECT["mypy"]["files"]]
    assert all(any((ROOT / package).is_relative_to(folder) for folder in typed) for package in WHEEL)
