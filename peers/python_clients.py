"""Clients in Python as drivers: a process of its own for each call, which has a security of its own."""

from __future__ import annotations

import os
import sys
from typing import Final

from peers.driver import Driver
from peers.place import HERE

_CLIENTS: Final = "tests.compat.clients"


def confluent() -> Driver:
    return _driver(f"{_CLIENTS}.confluent:Confluent")


def kafka_python() -> Driver:
    return _driver(f"{_CLIENTS}.pure:KafkaPython")


def aiokafka() -> Driver:
    return _driver(f"{_CLIENTS}.aio:Aiokafka")


def kcat() -> Driver:
    return _driver("peers.kcat:Kcat")


def _driver(client: str) -> Driver:
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    return Driver([sys.executable, "-m", "peers.python_driver", client], PYTHONPATH=path)
