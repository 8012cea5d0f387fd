"""Files that a process makes are for its user alone, and what is open to others is named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_core.files.private_files import open_to_others, private_files, warning_of


@pytest.fixture(autouse=True)
def _generous() -> Iterator[None]:
    """A process whose files all may read."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that others can get into. They can't get into the directories of tests."""
    monkeypatch.setattr(Path, "parents", property(lambda path: [tmp_path]))
    tmp_path.chmod(0o711)
    place = tmp_path / "data"
    place.mkdir(mode=0o755)
    return place


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_made_meanwhile_is_for_its_owner_alone(tmp_path: Path) -> None:
    with private_files():
        (tmp_path / "directory").mkdir()
        (tmp_path / "file").write_text("")
        subprocess.run(["/bin/sh", "-c", "> of-a-child"], cwd=tmp_path, check=True)
    (tmp_path / "afterwards").write_text("")
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
        "directory": 0o700,
        "file": 0o600,
        "of-a-child": 0o600,
        "afterwards": 0o666,
    }


def test_what_every_user_may_use_is_named_with_the_remedy(place: Path) -> None:
    for name, allowed in (("t-0", 0o755), ("t-1", 0o700), ("of-a-group", 0o770)):
        (place / name).mkdir(mode=allowed)
    (place / "link").symlink_to("t-1")
    assert open_to_others(place) == [place / "t-0"]
    assert warning_of(place) == f"other users of this host can use {place}/t-0; run `chmod -R go= {place}`"
    (place / "meta.properties").write_text("")
    assert f"{place}/meta.properties and 1 more;" in warning_of(place)


def test_what_nobody_can_reach_is_not_named(place: Path, tmp_path: Path) -> None:
    (place / "t-0").mkdir(mode=0o755)
    for closed in (place, tmp_path):
        before = mode(closed)
        closed.chmod(0o700)
        assert warning_of(place) == ""
        closed.chmod(before)
    assert warning_of(place)
    assert warning_of(place / "missing") == ""
