"""Python imports this module at the start of each process that a run without mends starts."""

from tests.regressions.injector import install_from_environment

install_from_environment()
