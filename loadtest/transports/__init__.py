"""The SDK's two transports, gRPC and Kafka's protocol, beside each other."""
