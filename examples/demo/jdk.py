"""The Java that Spark needs: whether this machine has it, and the one command that installs it if not."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

LEAST: Final = 17
_LIMIT_S: Final = 30.0
_COMMANDS: Final = {
    "apt-get": "apt-get install openjdk-{version}-jre-headless",
    "dnf": "dnf install java-21-openjdk-headless",
    "apk": "apk add openjdk21-jre-headless",
    "pacman": "pacman -S jre21-openjdk-headless",
    "zypper": "zypper install java-21-openjdk-headless",
    "brew": "brew install openjdk@21",
}


def java_version() -> int | None:
    """Return the version of the Java that Spark would run, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if java is None:
        return None
    completed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    number = re.search(r'version "(?:1\.)?(\d+)', completed.stderr)
    return int(number[1]) if number else None


def how_to_install() -> str:
    """The command for this platform."""
    command = next((command_line for program, command_line in _COMMANDS.items() if shutil.which(program)), None)
    if command is None:
        return f"install a JDK of {LEAST} or newer"
    return command.format(version=_debian_version())


def _debian_version() -> int:
    """Debian had 17 up to its release 12, and has 21 since; every Ubuntu has 17."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return LEAST
    number = release.get("VERSION_ID", "")
    return 21 if release.get("ID") == "debian" and (not number.isdigit() or int(number) > 12) else LEAST
