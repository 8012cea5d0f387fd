"""How a process of ottla keeps the memory that it has freed."""

import subprocess
import sys
from pathlib import Path

ARENAS_OF_EIGHT_THREADS = """
import ctypes, sys, threading
from ottla_core.process.allocator import keep_freed_memory

def allocate():
    together.wait()
    held = bytes(100_000)
    together.wait()

keep_freed_memory()
together = threading.Barrier(8)
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def test_threads_share_two_arenas_for_what_each_keeps_no_other_can_use(tmp_path: Path) -> None:
    report = tmp_path / "malloc.xml"
    subprocess.run([sys.executable, "-c", ARENAS_OF_EIGHT_THREADS, str(report)], timeout=60, check=True)
    assert report.read_text().count("<heap nr=") == 2
