"""Python imports this module at the start of each process of a run with security."""

from tests.compat.default_login import install_from_environment

install_from_environment()
