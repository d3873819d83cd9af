"""From the framework a job names to what we know of it."""

from __future__ import annotations

from ytf.frameworks import plain, tensorflow
from ytf.frameworks.api import Profile
from ytf.specs.job import Framework

_PROFILES = {
    Framework.TENSORFLOW: tensorflow.PROFILE,
    Framework.NONE: plain.PROFILE,
}


def profile(framework: Framework) -> Profile:
    """The profile of a framework."""
    return _PROFILES[framework]
