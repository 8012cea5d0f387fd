"""Count what no attribute holds: files, descriptors, threads, tasks, the metadata store's keys, all instances."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.growth.cluster import GrowthCluster
from tests.growth.roles import MODULE, OUTSIDE
from tests.growth.walk import PRODUCT, Root, Structure, module_of

from ottla_core.cluster.memory import MemoryStore

_DIGITS: Final = re.compile(r"[0-9a-f]{32}|\d+")
_DEPTH_OF_KEYS: Final = 4
_PACKAGES: Final = (
    "ottla_broker",
    "ottla_controller",
    "ottla_core",
    "ottla_group_coordinator",
    "ottla_mirror",
    "ottla_txn_coordinator",
)


def surroundings(cluster: GrowthCluster) -> Counter[Structure]:
    """Count on the cluster's loop, once the garbage is collected."""
    sizes: Counter[Structure] = Counter()
    for broker in (broker for each in cluster.all for broker in each.brokers):
        _add_files(sizes, broker.data_dir)
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue  # that of the directory
        kind = target.partition(":")[0] if ":" in target else Path(target).suffix or "other"
        sizes[Structure(OUTSIDE, f"descriptors of {general(kind)}", "items")] += 1
    for thread in threading.enumerate():
        sizes[Structure(OUTSIDE, f"threads {general(thread.name)}", "items")] += 1
    for each in cluster.all:
        for task in asyncio.all_tasks(each._loop):
            name = getattr(task.get_coro(), "__qualname__", "?")
            sizes[Structure(OUTSIDE, f"tasks {name}", "items")] += 1
        add_keys(sizes, each._store)
    return sizes


def instances() -> Counter[Structure]:
    """Count the living instances of the product's classes in this process, whoever holds them."""
    found = Counter(type(each) for each in gc.get_objects() if module_of(each).startswith(PRODUCT))
    sizes: Counter[Structure] = Counter()
    for class_, count in found.items():
        sizes[Structure(OUTSIDE, f"{class_.__module__}.{class_.__qualname__}", "instances")] += count
    return sizes


def modules() -> Iterator[Root]:
    """Iterate over what modules and classes of the services keep by themselves."""
    for name, variables in _namespaces():
        yield Root(MODULE, name, dict(variables))


def caches() -> Counter[Structure]:
    """Count the entries of every `functools.cache` and `lru_cache` of the services."""
    sizes: Counter[Structure] = Counter()
    for name, variables in _namespaces():
        for variable, value in list(variables.items()):
            if isinstance(value, functools._lru_cache_wrapper):
                sizes[Structure(MODULE, f"cache of {name}.{variable}", "items")] += value.cache_info().currsize
    return sizes


def _namespaces() -> Iterator[tuple[str, Mapping[str, object]]]:
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] not in _PACKAGES:
            continue
        yield name, vars(module)
        for class_ in list(vars(module).values()):
            if inspect.isclass(class_) and class_.__module__ == name:
                yield f"{name}.{class_.__qualname__}", vars(class_)


def add_keys(sizes: Counter[Structure], store: MemoryStore) -> None:
    for key, entry in list(store._entries.items()):
        prefix = "/".join(key.split("/")[:_DEPTH_OF_KEYS])
        sizes[Structure(OUTSIDE, f"keys {prefix}", "items")] += 1
        sizes[Structure(OUTSIDE, f"keys {prefix}", "bytes")] += len(entry.value)
    sizes[Structure(OUTSIDE, "leases", "items")] += len(store._leases)


def _add_files(sizes: Counter[Structure], folder: Path) -> None:
    """Count files by what their names have in common, and their bytes, except those that retention bounds.

    In a checkpoint each number counts as one byte, because an offset that gets another digit is no growth.
    """
    for path in folder.rglob("*"):
        name = general(path.name)
        sizes[Structure(OUTSIDE, f"files {name}", "items")] += 1
        if path.is_file() and path.suffix not in (".log", ".index", ".timeindex"):
            try:
                sizes[Structure(OUTSIDE, f"files {name}", "bytes")] += _bytes_of(path)
            except FileNotFoundError:
                continue  # renamed or removed meanwhile


def _bytes_of(path: Path) -> int:
    return len(general(path.read_text())) if path.name.endswith("checkpoint") else path.stat().st_size


def general(name: str) -> str:
    return _DIGITS.sub("#", name)
