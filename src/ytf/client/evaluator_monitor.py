"""Logs the figures of a job's evaluators while ``run_on_yarn`` waits, as tf-yarn does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ytf.errors import SpecError, did_you_mean
from ytf.specs.job import EVALUATOR
from ytf.specs.status import JobStatus

FIGURES = {
    "awake_time_ratio": "awake ratio",
    "eval_step_mean_duration": "mean duration of a step",
    "last_training_step": "training step of the last checkpoint",
    "nb_eval_steps": "steps evaluated",
}
"""The metrics that evaluators report (``functions/shipped/run_experiment.py``), in words."""

Thresholds = Mapping[str, tuple[float | None, float | None]]
"""The least and the highest value of a figure that is logged; None: no limit."""


def check_thresholds(thresholds: Thresholds) -> None:
    """Raise ``SpecError`` for a figure that evaluators do not report."""
    for name in thresholds:
        if name not in FIGURES:
            raise SpecError(
                f"evaluators report no {name!r}",
                where="eval_monitor_log_thresholds",
                hint=did_you_mean(name, FIGURES, otherwise=f"they report {', '.join(FIGURES)}"),
            )


class EvaluatorMonitor:
    """Compares each status with the one before, and logs figures that have changed."""

    def __init__(self, thresholds: Thresholds, log: Callable[[str], None]) -> None:
        self._thresholds = thresholds
        self._log = log
        self._known: dict[tuple[int, str], float] = {}

    def take(self, status: JobStatus) -> None:
        """Log what is new in a status."""
        for task in status.tasks:
            if task.group != EVALUATOR or task.usage is None:
                continue
            changed = []
            for name, words in FIGURES.items():
                value = task.usage.metrics.get(name)
                if value is None or self._known.get((task.index, name)) == value:
                    continue
                self._known[task.index, name] = value
                if self._is_logged(name, value):
                    changed.append(f"{words} {value:.6g}")
            if changed:
                self._log(f"{EVALUATOR}:{task.index}: {', '.join(changed)}")

    def _is_logged(self, name: str, value: float) -> bool:
        least, most = self._thresholds.get(name, (None, None))
        return (
            (-math.inf if least is None else least) <= value <= (math.inf if most is None else most)
        )
