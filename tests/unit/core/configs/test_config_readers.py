"""`enforced` is true of every config: some service reads it, and acts on what it has read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.replication.replication_config import ReplicationSettings
from ottla_broker.storage.log_config import LogConfig
from ottla_core.configs.config_table import BROKER_CONFIGS, ENFORCED, GROUP_CONFIGS, SYNONYMS, TOPIC_CONFIGS

ROOT = Path(__file__).resolve().parents[4]
TABLES = ("config_table.py", "kafka_configs.py")
ONLY_REFUSED = {"remote.storage.enable"}
"""Nobody reads it, for it can't be true."""
SYNONYMS_OF_TOPICS = {s.name for synonyms in SYNONYMS.values() for s in synonyms} - TOPIC_CONFIGS.keys()
"""The topic's own name is what is read."""


def sources() -> Iterator[ast.Module]:
    """Without the mirror's, which names configs of other clusters' topics, those that it leaves alone."""
    for folder in ("core", "services"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name not in TABLES and "mirror" not in path.parts:
                yield ast.parse(path.read_text())


def names_in(tree: ast.AST) -> set[str]:
    """Configs that a source has as a text of their own."""
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts & {*TOPIC_CONFIGS, *BROKER_CONFIGS, *GROUP_CONFIGS}


@pytest.mark.story("config-said-to-have-no-effect")
def test_what_services_name_is_what_is_said_to_have_an_effect() -> None:
    named: set[str] = set().union(*map(names_in, sources()))
    assert named & SYNONYMS_OF_TOPICS == set(), "resolve() knows them; who reads one passes the topic's value by"
    assert named == ENFORCED - ONLY_REFUSED


def test_what_is_read_into_settings_is_used() -> None:
    used = {node.attr for tree in sources() for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for settings in (LogConfig, ReplicationSettings, CleanerSettings):
        assert {field.name for field in fields(settings)} <= used
