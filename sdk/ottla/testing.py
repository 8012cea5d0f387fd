"""A real cluster for tests: `with ottla.testing.Cluster() as c:`. The door to the server extra, which holds it."""

try:
    from ottla_stack.cluster import Cluster
except ImportError as error:  # pragma: no cover - seen only without the extra
    raise ImportError("ottla.testing needs the server: pip install 'ottla[server]'") from error

__all__ = ["Cluster"]
