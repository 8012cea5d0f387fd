"""A service's settings: four sources, one order, and errors that help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.process.service_config import load


@dataclass(frozen=True)
class Settings:
    port: int = 1
    rack: str = ""
    ratio: float = 0.5
    etcd: tuple[str, ...] = ()
    verbose: bool = False
    data_dir: Path = Path("data")


def test_each_source_beats_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "ottla.toml"
    file.write_text('[broker]\nport = 2\nrack = "file"\nratio = 0.25\netcd = ["a:1", "b:2"]\n[other]\nport = 9\n')
    environment = {"OTTLA_BROKER__RACK": "environment", "OTTLA_BROKER__RATIO": "0.75", "OTTLA_OTHER__PORT": "8"}
    given = load(Settings, "broker", ["--config", str(file), "--ratio=1.5", "--data-dir", "/d"], environment)
    assert given == Settings(2, "environment", 1.5, ("a:1", "b:2"), False, Path("/d"))
    assert load(Settings, "broker", ["--etcd=a:1,b:2", "--verbose=true"], {}) == Settings(
        etcd=("a:1", "b:2"), verbose=True
    )


@pytest.mark.parametrize(
    ("arguments", "verbose", "port"),
    [
        (["--verbose"], True, 1),
        (["--verbose", "--port", "7"], True, 7),
        (["--port=7", "--verbose"], True, 7),
        (["--verbose", "false", "--port=7"], False, 7),
        (["--verbose=false"], False, 1),
    ],
)
def test_a_setting_that_is_true_or_false_needs_no_value(arguments: list[str], verbose: bool, port: int) -> None:
    assert load(Settings, "broker", arguments, {}) == Settings(port=port, verbose=verbose)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prot=1"], "there is no setting 'prot' of broker .*; did you mean 'port'"),
        (["--port=x"], "port='x' is no int"),
        (["--verbose=maybe"], "verbose='maybe' is no bool"),
        (["port=1"], "'port=1' is not a setting .*; give settings as --name value"),
        (["--config=/nowhere.toml"], "the configuration file /nowhere.toml can't be read"),
    ],
)
def test_what_can_not_be_is_named_with_the_remedy(arguments: list[str], words: str) -> None:
    with pytest.raises(OttlaError, match=words) as raised:
        load(Settings, "broker", arguments, {})
    assert raised.value.code == ErrorCode.INVALID_CONFIG
