"""DescribeCluster (key 60), versions 0 to 2: the brokers of the cluster (KIP-700).

v1 adds the endpoint type (KIP-919); v2 fenced brokers, on request (KIP-1073). To clients of Kafka each broker is a
controller. Clients of ottla are also told which controller is elected.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.addresses import controller_for
from ottla_broker.kafka.authorization.needs import DESCRIBE_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.kafka.wire.metadata import cluster_operations
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import DescribeClusterRequest, DescribeClusterResponse

_Broker: TypeAlias = DescribeClusterResponse.DescribeClusterBroker
_Listener: TypeAlias = DescribeClusterResponse.Listener
_Controller: TypeAlias = DescribeClusterResponse.ElectedController
_BROKERS: Final = 1
_CONTROLLERS: Final = 2
NO_CONTROLLER: Final = -1


def handle(backend: Backend, request: DescribeClusterRequest, context: KafkaContext) -> DescribeClusterResponse:
    image = backend.image
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        text = "a broker describes brokers only; controllers do not speak Kafka's protocol"
        return DescribeClusterResponse(error_code=int(code), error_message=text, cluster_id="")
    brokers = []
    for broker in image.brokers.values():
        address = backend.addresses.advertised(broker, context.caller)
        if address is not None and (request.include_fenced_brokers or not broker.fenced):
            brokers.append(
                _Broker(
                    broker_id=broker.id,
                    host=address.host,
                    port=address.port,
                    rack=broker.rack or None,
                    is_fenced=broker.fenced,
                    epoch=broker.epoch,
                    read_only=broker.read_only,
                    first_listener=broker.kafka_address,
                    listeners=[_Listener(name=name, address=at) for name, at in broker.kafka_listeners.items()],
                )
            )
    return DescribeClusterResponse(
        error_code=0,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=image.cluster_id,
        controller_id=controller_for(backend.node_id, (b.broker_id for b in brokers if not b.is_fenced)),
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(
            context.access, requested=request.include_cluster_authorized_operations
        ),
        controller=_elected(image),
    )


def _elected(image: ClusterImage) -> _Controller:
    elected = image.controller
    if elected is None:
        return _Controller(id=NO_CONTROLLER, epoch=NO_CONTROLLER)
    return _Controller(id=elected.id, address=elected.address, epoch=elected.epoch)


API: Final = control(
    DescribeClusterRequest,
    (0, 2),
    handle,
    # Only the cluster's authorized operations need this right.
    needs=DESCRIBE_CLUSTER,
    errors=error_codes.Errors(
        "schema (v1); KIP-919: v0 has only one kind of endpoint",
        since=dict.fromkeys(
            (ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            error_codes.Since(1, ErrorCode.INVALID_REQUEST),
        ),
    ),
)
