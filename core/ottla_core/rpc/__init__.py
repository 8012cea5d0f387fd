"""gRPC in one place: any object whose async methods are a contract's RPCs is served; any contract is called."""

import os

# gRPC's core writes connection news to stderr, where it would end up between a user's own lines.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
