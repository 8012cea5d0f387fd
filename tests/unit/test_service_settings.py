"""The settings of every service can be given on its command line."""

from __future__ import annotations

import dataclasses
import re
from pathlib import PurePath
from typing import Any, get_type_hints

import pytest

from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.process.service_config import load
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror.config import MirrorConfig
from ottla_txn_coordinator.config import TxnCoordinatorConfig

LEGAL = {
    "authorizer_class_name": "StandardAuthorizer",
    "ssl_client_auth": "required",
    "super_users": "User:alice",
}
"""Texts of settings that can't have any text."""


SERVICES = pytest.mark.parametrize(
    "settings", [BrokerConfig, ControllerConfig, GroupCoordinatorConfig, MirrorConfig, TxnCoordinatorConfig]
)
SECRET = re.compile("password|secret|token|credential|private|(?<!kafka)_key(?!store)")
"""Names of settings that have to do with secrets."""


@SERVICES
def test_a_setting_names_the_file_of_a_secret_and_never_has_the_secret(settings: type[Any]) -> None:
    """Settings are in command lines, in environments and in what a debugger prints. Their secrets must not be."""
    types = get_type_hints(settings)
    of_secrets = {field.name for field in dataclasses.fields(settings) if SECRET.search(field.name)}
    assert "admin_token_file" in of_secrets
    assert {name for name in of_secrets if types[name] is not PurePath} == set()


@SERVICES
def test_each_setting_is_read_as_its_type(settings: type[Any]) -> None:
    types = get_type_hints(settings)
    for field in dataclasses.fields(settings):
        texts = {bool: "true", int: "7", float: "7.5", tuple[str, ...]: "first=1"}
        text = LEGAL.get(field.name) or texts.get(types[field.name], "text")
        if field.name.startswith("kafka_"):
            continue  # their form is that of listeners, see test_listener_settings.py
        value = getattr(load(settings, "service", [f"--{field.name.replace('_', '-')}={text}"]), field.name)
        assert isinstance(value, getattr(types[field.name], "__origin__", types[field.name])), field.name
