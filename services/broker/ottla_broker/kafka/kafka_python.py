"""Kafka's message classes without the clients that come with them: kafka-python's `kafka.protocol`, not `kafka`.

To import a module is to import its package first, and kafka-python's package imports all of its clients: 0.11 s of
processor and 5 MB for each broker, of which it uses nothing. So the package stands in unexecuted while its protocol is
imported, and is forgotten again: whoever imports `kafka` itself in this process gets it whole.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from typing import Final

_PACKAGE: Final = "kafka"
_USED: Final = ("admin", "consumer", "metadata", "producer")


def import_protocol() -> None:
    """Have `kafka.protocol` in `sys.modules`, so that importing from it asks for no package any more."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None:
        raise ModuleNotFoundError("the broker needs kafka-python: pip install 'ottla[server]'", name=_PACKAGE)
    whole = sys.modules.get(_PACKAGE)
    sys.modules.setdefault(_PACKAGE, importlib.util.module_from_spec(spec))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, whence definitions come
            for name in _USED:
                importlib.import_module(f"{_PACKAGE}.protocol.{name}")
    finally:
        if whole is None:
            del sys.modules[_PACKAGE]
