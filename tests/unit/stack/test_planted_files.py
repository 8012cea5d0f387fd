"""Files that another user of the host has put where a stack keeps its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.errors import ConfigError
from ottla_stack import commands, private_files
from ottla_stack.commands import down, up
from ottla_stack.secure_files import SecureFiles


@pytest.fixture(autouse=True)
def _no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_up", lambda *_, **__: pytest.fail("the stack starts"))


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


@pytest.fixture
def files(tmp_path: Path) -> SecureFiles:
    """The directory of a stack that was secured."""
    files = SecureFiles.of_stack(tmp_path / "stack")
    files.ca.mkdir(parents=True, mode=0o700)
    for directory in (files.directory.parent, files.directory):
        directory.chmod(0o700)
    files.password.write_text("chosen by somebody else\n")
    files.password.chmod(0o600)
    return files


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files belong neither to this process's user nor to root."""
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(private_files, "_ROOT", 4712)


@pytest.mark.story("planted-password-is-taken")
@pytest.mark.parametrize("name", ["security", "security/ca", "security/admin.password", "."])
@pytest.mark.parametrize("mode", [0o770, 0o707])
@pytest.mark.parametrize("secure", [True, False])
def test_a_path_that_others_may_change_is_refused(files: SecureFiles, name: str, mode: int, secure: bool) -> None:
    path = files.directory.parent / name
    path.chmod(mode)
    _check_refused(files, path, "can be changed by other users", lambda: up(files.directory.parent, secure=secure))


@pytest.mark.story("planted-password-is-taken")
@pytest.mark.parametrize("name", ["security", "security/ca", "security/admin.password"])
def test_a_link_is_refused(files: SecureFiles, name: str) -> None:
    path = files.directory.parent / name
    _link(path)
    _check_refused(files, path, "is a link", lambda: up(files.directory.parent, secure=True))


@pytest.mark.story("planted-password-is-taken")
@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("command", [up, down])
def test_a_directory_of_another_user_is_refused(files: SecureFiles, command: Callable[..., None]) -> None:
    place = files.directory.parent
    _check_refused(files, place, "belongs to another user", lambda: command(place))


@pytest.mark.usefixtures("foreign")
def test_a_file_of_another_user_is_refused(files: SecureFiles) -> None:
    with pytest.raises(ConfigError, match="belongs to another user"):
        private_files.check_not_planted(files.directory)


def test_a_directory_that_is_a_link_of_its_owner_is_taken(files: SecureFiles, tmp_path: Path) -> None:
    """Data may be on another disk."""
    (tmp_path / "link").symlink_to(files.directory.parent)
    private_files.check_owner(tmp_path / "link")
    private_files.check_not_planted(SecureFiles.of_stack(tmp_path / "link").directory)


def test_a_directory_that_does_not_exist_yet_is_accepted(tmp_path: Path) -> None:
    private_files.check_owner(tmp_path / "new")
    private_files.check_not_planted(SecureFiles.of_stack(tmp_path / "new").directory)


def _check_refused(files: SecureFiles, path: Path, words: str, start: Callable[[], None]) -> None:
    """Nothing is written, and the message names the path."""
    before = sorted(files.directory.parent.rglob("*"))
    with pytest.raises(ConfigError, match=words) as caught:
        start()
    assert str(path) in str(caught.value)
    assert "chmod go-w" in caught.value.hint
    assert sorted(files.directory.parent.rglob("*")) == before
