"""Locust's view of the curves: `--shape ramp -u 12 -t 60s`."""

from __future__ import annotations

from typing import Final

from locust import LoadTestShape

from loadtest.locust.curves import users_at

DEFAULT_USERS: Final = 10
DEFAULT_SECONDS: Final = 60.0


class Shape(LoadTestShape):
    """One of the curves, for -u users and the time of -t. Without --shape all users are there at once."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """Users to be there now, and how many a second may come or go."""
        assert self.runner is not None, "locust sets it before the first tick"
        options = self.runner.environment.parsed_options
        assert options is not None, "locust was started from its command line"
        most, seconds = options.num_users or DEFAULT_USERS, float(options.run_time or DEFAULT_SECONDS)
        users = users_at(options.shape, self.get_run_time(), most, seconds)
        return None if users is None else (users, float(most))
