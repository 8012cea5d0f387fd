"""Durations, sizes and configs as users write them."""

from datetime import UTC, datetime, timedelta

import pytest

from ottla.client.units import config_text, parse_duration, seconds, size_bytes, timestamp_ms
from ottla.errors import ConfigError


def test_seconds_take_numbers_and_timedeltas() -> None:
    assert seconds(0.25, "linger") == 0.25
    assert seconds(3, "linger") == 3.0
    assert seconds(timedelta(milliseconds=1500), "linger") == 1.5


@pytest.mark.parametrize("wrong", [-1, "5s", True, None, float("nan")])
def test_what_is_no_duration_names_its_argument(wrong: object) -> None:
    with pytest.raises(ConfigError, match="linger=") as caught:
        seconds(wrong, "linger")  # type: ignore[arg-type]  # what no type allows
    assert "timedelta" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "size"), [(10, 10), ("10", 10), ("64KiB", 65536), ("1.5 MiB", 1572864), ("1GB", 10**9), ("16m", 16 << 20)]
)
def test_sizes_take_bytes_and_units(text: int | str, size: int) -> None:
    assert size_bytes(text, "batch_size") == size


@pytest.mark.parametrize("wrong", [-1, "64 parsec", "", 1.5, True])
def test_what_is_no_size_names_its_argument(wrong: object) -> None:
    with pytest.raises(ConfigError, match="batch_size="):
        size_bytes(wrong, "batch_size")  # type: ignore[arg-type]  # what no type allows


def test_configs_are_spelled_as_kafka_spells_them() -> None:
    assert config_text("retention.ms", "7d") == "604800000"
    assert config_text("retention.ms", timedelta(hours=1)) == "3600000"
    assert config_text("retention.ms", -1) == "-1"
    assert config_text("segment.bytes", "1GiB") == "1073741824"
    assert config_text("unclean.leader.election.enable", True) == "true"
    assert config_text("cleanup.policy", ["compact", "delete"]) == "compact,delete"
    assert config_text("compression.type", "zstd") == "zstd"


def test_durations_as_text() -> None:
    assert [parse_duration(t, "t") for t in ("250ms", "10", "15m", "12h", "2w")] == [0.25, 10, 900, 43200, 1209600]
    with pytest.raises(ConfigError):
        parse_duration("soon", "t")


def test_moments_are_points_in_time_or_so_long_from_now() -> None:
    assert timestamp_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), now_ms=5) == 1000
    assert timestamp_ms(timedelta(hours=-1), now_ms=7_200_000) == 3_600_000
