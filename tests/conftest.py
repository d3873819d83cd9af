"""Property tests are judged by what they find, not by how busy the machine is."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.cluster"]

settings.register_profile(
    "specs",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("specs")

# Whoever runs the tests may ignore some of these (nohup, or a shell's &), and every process
# that they start would, too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
