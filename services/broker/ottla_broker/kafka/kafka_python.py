"""Kafka's message classes without the clients that come with them: kafka-python's `kafka.protocol`, not all of `kafka`.

To import a module is to import its package first, and kafka-python's package imports all of its clients: 0.11 s of
processor and 5 MB for each broker, of which it uses nothing. So the package is in `sys.modules` unexecuted, and is
executed in place once more of it than its modules is needed: a program with a broker in its own process
(`ottla.testing`) may be one of kafka-python's users.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_PACKAGE: Final = "kafka"


def import_protocol() -> None:
    """To be called before an import from `kafka.protocol`. Raises ModuleNotFoundError without kafka-python."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and _PACKAGE not in sys.modules:
        sys.modules[_PACKAGE] = _executed_on_demand(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, by which they load definitions
        for module in ("schemas", "admin", "consumer", "metadata", "producer"):
            importlib.import_module(f"{_PACKAGE}.protocol.{module}")


def _executed_on_demand(spec: ModuleSpec) -> ModuleType:
    """The package, whose own lines run when a name is requested that it does not have yet (PEP 562)."""
    package = importlib.util.module_from_spec(spec)
    one_at_a_time = threading.RLock()
    begun = False

    def missing(name: str) -> Any:
        nonlocal begun
        with one_at_a_time:
            if not begun and spec.loader is not None:
                begun = True
                spec.loader.exec_module(package)
            if name in vars(package):
                return vars(package)[name]
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}", name=name, obj=package)

    vars(package)["__getattr__"] = missing
    return package
