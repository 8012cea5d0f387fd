"""The short form of `make release`: wheel, sdist and notes. Only `make release` installs them and builds images."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.golden.released import check_recorded, of_last_release
from tests.hosts.shell import ProofError
from tests.release.artifacts import ROOT, built, check_same, version
from tests.release.images import images
from tests.release.notes import MOST_LINES, notes, section


def test_the_sdist_builds_the_wheel_of_the_checkout(tmp_path: Path) -> None:
    artifacts = built(tmp_path)
    with zipfile.ZipFile(artifacts.wheel) as opened:
        names = set(opened.namelist())
    assert {"ottla/py.typed", "ottla_broker/__main__.py", "pyspark_ottla/source.py"} <= names
    assert not [name for name in names if name.startswith("tests/")]
    with zipfile.ZipFile(other := tmp_path / "other.whl", "w") as opened:
        opened.writestr("ottla/py.typed", "")
    with pytest.raises(
        ProofError, match=r"the sdist builds another wheel than the checkout: .*pyspark_ottla/source\.py"
    ):
        check_same(artifacts.wheel, other)


def test_notes_hold_the_changes_of_the_version_and_the_digests_of_its_files(tmp_path: Path) -> None:
    changes = section((ROOT / "CHANGELOG.md").read_text(), version())
    (file := tmp_path / "ottla.whl").write_bytes(b"a" * 2000)
    written = notes(version(), changes, [file], ["ottla-broker:0.1.0"])
    assert "### Known limits" in written
    assert f"| `ottla.whl` | 2 kB | `{hashlib.sha256(file.read_bytes()).hexdigest()}` |" in written
    assert "`ottla-broker:0.1.0`" in written


@pytest.mark.parametrize(
    ("changelog", "error"),
    [
        ("# Changelog\n\n## 0.1.0\n\nFirst.\n", "has no section 0.2.0"),
        ("## 0.2.0\n\n" + "- a change\n" * (MOST_LINES + 1), f"has {MOST_LINES + 1} lines"),
    ],
)
def test_a_version_needs_a_short_section_in_the_changelog(changelog: str, error: str) -> None:
    with pytest.raises(ProofError, match=error):
        section(changelog, "0.2.0")


def test_a_version_needs_a_record_of_its_own_formats() -> None:
    with pytest.raises(AssertionError, match=r"those of .*: run `python -m tests.golden.released --record 9.9.9`"):
        check_recorded("9.9.9")
    with (
        patch("tests.golden.released.message_lines", lambda: [*of_last_release()["messages"], "a new field"]),
        pytest.raises(AssertionError, match="this tree writes other messages than were recorded: run `python"),
    ):
        check_recorded(of_last_release()["release"])


def test_every_service_has_an_image() -> None:
    services = {"broker", "controller", "group-coordinator", "txn-coordinator", "mirror"}
    assert {f"ottla-{name}" for name in services} <= set(images())
