"""Property tests are judged by what they find, not by how busy the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.cluster"]

settings.register_profile(
    "specs",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("specs")
