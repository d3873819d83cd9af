"""What the ResourceManager tells of a job, made up."""

from __future__ import annotations

from ytf.hadoop.yarn.ids import ApplicationId, AttemptId
from ytf.hadoop.yarn.records import (
    ApplicationReport,
    ApplicationState,
    FinalStatus,
    LogStatus,
)

APP = ApplicationId(1700000000000, 7)


def report(
    state: ApplicationState,
    final: FinalStatus = FinalStatus.UNDEFINED,
    *,
    attempt: int = 1,
    port: int = -1,
) -> ApplicationReport:
    return ApplicationReport(
        id=APP, name="n", type="YTF", user="alice", queue="default", state=state,
        final_status=final, diagnostics=" said \n", progress=0.0, host="node7", rpc_port=port,
        tracking_url="N/A", original_tracking_url="", attempt=AttemptId(APP, attempt), tags=(),
        priority=0, submitted_ms=0, started_ms=1500, launched_ms=0, finished_ms=0, usage=None,
        log_status=LogStatus.NOT_STARTED, node_label_expression="", unmanaged=False,
        client_token=None, master_token=None,
    )  # fmt: skip
