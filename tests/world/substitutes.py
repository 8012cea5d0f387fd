"""What the operating system gives a process, replaced by what the world gives: clocks, chance, threads, locks, files
and gRPC. Anything that still reaches for a real one fails the run and is named.

A seed runs in an operating system's process of its own, so nothing is put back.
"""

from __future__ import annotations

import gc
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.world import grpc_calls, health
from tests.world.disk import Disks
from tests.world.fibers import World
from tests.world.network import Network
from tests.world.threads import Executor, Local, Lock

from ottla_broker.compaction.throttle import Throttle
from ottla_broker.storage import files
from ottla_core.rpc import status, transport


class EscapeError(Exception):
    """Something has reached for what is outside of the world."""


def put_in_place(world: World, network: Network, disks: Disks) -> None:
    """Replace everything. From now on the product's code runs only on the world's fibers."""
    gc.disable()
    Lock.world = world
    _replace_clocks(world)
    _replace_chance(world)
    originals: dict[int, Any] = {
        id(threading.Lock): Lock,
        id(threading.RLock): partial(Lock, again=True),
        id(threading.local): Local,
        id(ThreadPoolExecutor): partial(_executor, world),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("ottla_"):
            for attribute, value in list(vars(module).items()):
                if id(value) in originals:
                    setattr(module, attribute, originals[id(value)])
    for name in [name for name in vars(Disks) if not name.startswith("_") and hasattr(files, name)]:
        setattr(files, name, getattr(disks, name))
    _replace_grpc(world, network)
    _replace_health_checks(world, network)
    os.getpid = lambda: 4000  # it is written to files, whose length decides what a torn write leaves
    for owner, name in (
        (threading.Thread, "start"),
        (socket.socket, "connect"),
        (socket.socket, "bind"),
        (subprocess.Popen, "__init__"),
    ):
        _forbid(world, owner, name)


def _replace_grpc(world: World, network: Network) -> None:
    # The options are read at each call, because a mutant changes them, and so does a seed that shrinks limits.
    def open_channel(address: str, material: None = None) -> grpc_calls.SimulatedChannel:
        limits = grpc_calls.Limits.of(status.CHANNEL_OPTIONS)
        return grpc_calls.SimulatedChannel(network, _running(world), address, limits)

    def new_server() -> grpc_calls.SimulatedServer:
        return grpc_calls.SimulatedServer(network, _running(world), grpc_calls.Limits.of(status.SERVER_OPTIONS))

    transport.open_channel, transport.new_server = open_channel, new_server  # type: ignore[assignment]  # no certificates


def _running(world: World) -> Any:
    assert world.current is not None, "only a simulated process connects"
    return world.current.process


def _replace_health_checks(world: World, network: Network) -> None:
    substitutes = {
        "HealthWatch": lambda address, tls=None: health.SimulatedHealthWatch(network, _running(world), address),
        "responds": lambda address, tls=None, *, timeout: health.responds(network, _running(world), address),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("ottla_controller"):
            for attribute in substitutes.keys() & vars(module).keys():
                setattr(module, attribute, substitutes[attribute])


def _executor(world: World, max_workers: int, thread_name_prefix: str = "pool") -> Executor:
    return Executor(world, _running(world), max_workers, thread_name_prefix)


def _replace_clocks(world: World) -> None:
    def monotonic() -> float:
        current = world.current
        seconds: float = current.process.monotonic() if current is not None else world.now
        return seconds

    def wall_ns() -> int:
        current = world.current
        return (int(current.process.wall_ms()) if current is not None else 0) * 1_000_000

    time.monotonic = time.perf_counter = time.thread_time = time.process_time = monotonic
    time.monotonic_ns = time.perf_counter_ns = lambda: int(monotonic() * 1e9)
    time.time_ns = wall_ns
    time.time = lambda: wall_ns() / 1e9
    time.sleep = lambda seconds: world.pause(float(seconds))
    # Its parameters have the real ones as their defaults.
    Throttle.__init__.__kwdefaults__.update(clock=time.monotonic, sleep=time.sleep)  # type: ignore[union-attr]  # it has such parameters


def _replace_chance(world: World) -> None:
    chance = world.chance("processes")
    random.seed(f"{world.seed}/random")

    def urandom(size: int) -> bytes:
        return chance.randbytes(size)

    os.urandom = urandom
    random._urandom = urandom  # type: ignore[attr-defined]  # a private name of the module
    secrets.token_bytes = lambda nbytes=32: chance.randbytes(nbytes or 32)
    secrets.token_hex = lambda nbytes=32: chance.randbytes(nbytes or 32).hex()
    secrets.randbelow = lambda exclusive_upper_bound: chance.randrange(exclusive_upper_bound)
    secrets.randbits = lambda k: chance.getrandbits(k)


def _forbid(world: World, owner: Any, name: str) -> None:
    def escape(*arguments: Any, **_: Any) -> None:
        text = f"{owner.__name__}.{name} was called with {arguments[1:]}"
        world.failures.append(text)
        raise EscapeError(text)

    setattr(owner, name, escape)
