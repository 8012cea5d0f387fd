"""The SDK and the command line can be imported where Python lacks what only POSIX has, as on Windows."""

import subprocess
import sys

WITHOUT_POSIX = """
import os, signal, sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
for name in ("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGUSR1"):
    delattr(signal, name)
for name in ("fork", "geteuid", "getuid", "killpg", "pread", "pwrite", "register_at_fork", "sendfile", "statvfs"):
    delattr(os, name)
import ottla, ottla.aio, ottla_cli.main, ottla.testing
"""


def test_the_sdk_is_imported_without_what_only_posix_has() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
