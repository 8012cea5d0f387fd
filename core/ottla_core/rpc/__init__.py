"""gRPC is in one place: any object whose async methods are a contract's RPCs is served, and any contract is called."""

import os

# gRPC's core writes messages about connections to stderr, where they would end up between a user's own lines.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
