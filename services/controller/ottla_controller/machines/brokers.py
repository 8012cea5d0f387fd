"""Registrations decide which broker's request counts, which broker is leaving, and which process is dead.

A registration belongs to one incarnation of a broker. Every decision about it compares its create_revision, which is
the broker epoch. So a decision about one incarnation never hits a newer one (rule 22).
"""

from __future__ import annotations

from dataclasses import replace

from ottla_controller.machines.decision import Decision, ReliedOn, Write
from ottla_core.cluster import keys
from ottla_core.cluster.image import Broker, Change, ClusterImage
from ottla_core.errors import ErrorCode, OttlaError


def check_registered(image: ClusterImage, broker_id: int, epoch: int) -> Broker:
    """Return the registration of the incarnation that calls. Raises BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH (rule
    22)."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise OttlaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered", hint="register first"
        )
    if broker.epoch != epoch:
        raise OttlaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.epoch}, not {epoch}",
            hint="another process has registered with this id, or the caller has to register again",
        )
    return broker


def registration_seen(broker: Broker) -> ReliedOn:
    """Return the condition that this incarnation is still registered when the decision is written (rule C2)."""
    return ReliedOn(keys.broker(broker.id), create_revision=broker.epoch)


def decide_controlled_shutdown(image: ClusterImage, broker_id: int, epoch: int) -> Decision[None]:
    """Mark the broker as shutting down. The reconciler then moves its leaders away before it stops (rule C8).

    A repeated request writes nothing. Raises as `check_registered` does.
    """
    broker = check_registered(image, broker_id, epoch)
    if broker.shutting_down:
        return Decision(None)
    # Its value is compared, too, because the broker puts it once more when it unfences itself.
    seen = (registration_seen(broker), ReliedOn(keys.broker(broker_id), mod_revision=broker.mod_revision))
    return Decision(None, (Write(Change(keys.broker(broker_id), replace(broker, shutting_down=True)), seen),))


def decide_remove_dead(image: ClusterImage, broker_id: int, epoch: int) -> Decision[bool]:
    """Remove the registration of a process that is proven dead, before its lease ends (rule C7).

    The response says whether it was there.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        return Decision(False)
    return Decision(True, (Write(Change(keys.broker(broker_id), None), (registration_seen(broker),)),))
