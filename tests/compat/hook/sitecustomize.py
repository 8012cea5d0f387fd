"""Python imports this module at the start of each process of a run with logins."""

from tests.compat.on_kafka.default_login import install_from_environment

install_from_environment()
