"""The limits that result from the clients' merged settings, checked against each other."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from ottla.client.settings import one_of, positive
from ottla.client.units import seconds, size_bytes
from ottla.errors import ConfigError, ErrorCode, config_error
from ottla.machines.batches import ProducerLimits
from ottla.machines.sequences import BATCHES_REMEMBERED
from ottla.machines.subscription import FetchLimits
from ottla_core.records.compression import Codec, codec_of

logger = logging.getLogger("ottla.producer")

_ACKS: Final = {"all": -1, 1: 1, 0: 0}
_BACKOFF_MOST_S: Final = 1.0  # Kafka's retry.backoff.max.ms
_MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024


def producer_limits(settings: Mapping[str, Any]) -> ProducerLimits:
    """Return the accumulator's limits. Raises ConfigError."""
    label = settings["compression"] or "none"
    request_bytes = size_bytes(settings["max_request_size"], "max_request_size")
    if not 0 < request_bytes <= _MAX_REQUEST_BYTES:
        raise config_error(f"max_request_size={request_bytes} is not valid", hint="use 1 byte to 16 MiB")
    retries = settings["retries"]
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise config_error(f"retries={retries!r} is not valid", hint="use 0 or more")
    backoff_s = seconds(settings["retry_backoff"], "retry_backoff")
    batch_bytes = size_bytes(settings["batch_size"], "batch_size")
    buffer_bytes = size_bytes(settings["buffer_memory"], "buffer_memory")
    if buffer_bytes < min(batch_bytes, request_bytes):  # a full batch would never fit
        raise config_error(
            f"buffer_memory={buffer_bytes} is less than batch_size={batch_bytes}",
            hint="raise buffer_memory to hold several batches, or lower batch_size",
        )
    return ProducerLimits(
        batch_bytes=min(batch_bytes, request_bytes),
        buffer_bytes=buffer_bytes,
        request_bytes=request_bytes,
        linger_s=seconds(settings["linger"], "linger"),
        delivery_timeout_s=seconds(settings["delivery_timeout"], "delivery_timeout"),
        retries=retries,
        backoff_s=backoff_s,
        backoff_most_s=max(_BACKOFF_MOST_S, backoff_s),
        requests_per_broker=positive(settings["max_in_flight"], "max_in_flight"),
        idempotent=_idempotence(settings),
        codec=codec_of(one_of(label, "compression", [codec.label for codec in Codec])),
    )


def _idempotence(settings: Mapping[str, Any]) -> bool:
    """Return whether the producer is idempotent. An explicit setting is honoured or rejected (rule 66).

    By default it is on, unless acks or retries rule it out. More requests in flight than it allows are an error,
    because the producer would silently be slower (Kafka's ProducerConfig does the same).
    """
    requested, transactional = settings["enable_idempotence"], settings["transactional_id"] is not None
    if requested not in (None, True, False):
        raise config_error(f"enable_idempotence={requested!r} is not valid", hint="use True or False")
    if requested is False and transactional:
        raise config_error(
            "enable_idempotence=False and transactional_id can't be combined", hint="leave enable_idempotence out"
        )
    if requested is False:
        return False
    requested = requested or transactional
    acks, retries, in_flight = settings["acks"], settings["retries"], settings["max_in_flight"]
    excluding = []
    if acks_code(acks) != -1:
        excluding.append((f"acks={acks!r}", "acks='all'"))
    if retries == 0:
        excluding.append(("retries=0", "retries=1 or more"))
    if excluding and not requested:
        logger.info("idempotence is off, because it needs %s", " and ".join(needed for _, needed in excluding))
        return False
    if in_flight > BATCHES_REMEMBERED:
        excluding.append((f"max_in_flight={in_flight}", f"max_in_flight of at most {BATCHES_REMEMBERED}"))
    if excluding:
        setting, needed = excluding[0]
        source = " (needed for transactional_id)" if transactional else "" if requested else " (the default)"
        or_off = "" if transactional else ": change the setting, or set enable_idempotence=False"
        raise config_error(
            f"enable_idempotence=True{source} can't be combined with {setting}",
            hint=f"idempotence needs {needed}{or_off}",
        )
    return True


def check_timeouts(limits: ProducerLimits, request_s: float) -> None:
    """Raise ConfigError unless the delivery timeout leaves time for the linger and one request (KIP-91)."""
    if limits.delivery_timeout_s < limits.linger_s + request_s:
        raise config_error(
            f"delivery_timeout={limits.delivery_timeout_s:g} s is less than linger + request_timeout "
            f"({limits.linger_s + request_s:g} s)",
            hint="raise delivery_timeout or lower request_timeout",
        )


def acks_code(acks: Any) -> int:
    """Return -1, 1 or 0 for "all" (or -1), 1 and 0. Raises ConfigError with INVALID_REQUIRED_ACKS."""
    if not isinstance(acks, bool):
        if acks in _ACKS:
            return _ACKS[acks]
        if acks == -1:
            return -1
    raise ConfigError(
        ErrorCode.INVALID_REQUIRED_ACKS,
        f"acks={acks!r} is not valid",
        hint="use 'all' (every in-sync replica), 1 (the leader) or 0 (no response)",
    )


def fetch_limits(settings: Mapping[str, Any]) -> FetchLimits:
    """Return the subscription's limits. Raises ConfigError."""
    return FetchLimits(
        prefetch_bytes=size_bytes(settings["prefetch"], "prefetch"),
        partition_bytes=size_bytes(settings["max_partition_fetch_bytes"], "max_partition_fetch_bytes"),
        max_wait_s=seconds(settings["fetch_max_wait"], "fetch_max_wait"),
        replica_s=seconds(settings["metadata_max_age"], "metadata_max_age"),
    )
