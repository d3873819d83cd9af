"""Configurations of starters, as a backend gives them in the environment."""

from __future__ import annotations

import json

from ytf.starter.config import StarterConfig


def make_environ(**settings: object) -> dict[str, str]:
    group = str(settings.pop("group", "worker"))
    index = str(settings.pop("index", 0))
    given = {
        "job": "local_1",
        "container": "c1",
        "attempt": 0,
        "generation": 0,
        "master": "http://127.0.0.1:1",
        "secret_file": "secret",
        "log_dir": "logs",
        "port": "hold",
        "framework": "tensorflow",
        "registry": "rest",
        **settings,
    }
    return {
        "DTF_TASK_PROGRAM": "true",
        "DTF_TASK_JOB_NAME": group,
        "DTF_TASK_INDEX": index,
        "YTF_STARTER": json.dumps({k: v for k, v in given.items() if v is not ...}),
    }


def make_config(**settings: object) -> StarterConfig:
    return StarterConfig(make_environ(**settings))
