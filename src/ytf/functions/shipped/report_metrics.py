"""Reports metrics of a program to ytf, from its own process: ``ytf.report_metrics``.

Standard library only, because it travels to tasks as code: their environment need not
have ytf.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import SupportsFloat

_reported: dict[str, float] = {}


def report_metrics(
    metrics: Mapping[str, SupportsFloat] | None = None, /, **more: SupportsFloat
) -> None:
    """Show numbers of this task in ``ytf status``, on the job's page and in Prometheus.

    ``report_metrics(step=100, loss=0.3)``. What was reported before stays until it is
    reported anew; the task's next attempt begins without. A task shows 32 of them; of
    several processes in one task, what was written last. Outside of a job nothing
    happens, and a metric that cannot be written only causes a warning.
    """
    path = os.environ.get("YTF_METRICS_FILE")
    if path is None:
        return
    given = {**(metrics or {}), **more}
    _reported.update({name: float(value) for name, value in given.items()})
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(_reported, file)
        os.replace(draft, path)
    except OSError as error:
        warnings.warn(f"the metrics of this task are not shown: {error}", stacklevel=2)
