"""Jobs on this machine whose checkpoints are kept in sync with a directory."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.harness import HERE, Ytf, is_alive, kill, task
from ytf.processes import command_line, descendants
from ytf.testing.waiting import eventually

QUICK = {"initial_s": 0.05}

COUNT = """
import os, pathlib, time
place = pathlib.Path("checkpoints")
place.mkdir(exist_ok=True)
step = int((place / "step").read_text()) if (place / "step").exists() else 0
print("begins at", step, flush=True)
gate = pathlib.Path(os.environ["GATE"])
while not (gate / "go").exists():
    step += 1
    (place / "step.new").write_text(str(step))
    (place / "step.new").rename(place / "step")
    with open(place / "events.out.tfevents.1", "a") as events:
        events.write("%d\\n" % step)
    (gate / "step.new").write_text(str(step))
    (gate / "step.new").rename(gate / "step")
    time.sleep(1.5)
print("ends at", step, flush=True)
"""


def synced_step(place: Path) -> int:
    try:
        return int((place / "step").read_text())
    except FileNotFoundError:
        return 0


def test_a_killed_container_goes_on_where_the_last_snapshot_was(ytf: Ytf) -> None:
    (ytf.work / "count.py").write_text(COUNT)
    job = ytf.submit_spec(
        groups={"worker": {"count": 2, "on_failure": "restart-task", "backoff": QUICK}},
        files={"count.py": "count.py"},
        command=HERE + "[ $DTF_TASK_INDEX = 0 ] && exec python3 count.py; "
        'until [ -e "$GATE/go" ]; do sleep 0.05; done',
        checkpoint_sync={"dir": "checkpoints", "to": "run10", "interval_s": 1},
    )
    place = ytf.work / "run10"
    eventually(lambda: synced_step(place) >= 1, 60, "a step to be synced")
    # What only grows is there while it is written.
    assert (place / "events.out.tfevents.1").read_text().startswith("1\n")
    starter = job.starter("worker:0")
    pids = [starter, *descendants(starter)]
    assert sum("ytf.storage.checkpoint_sync" in command_line(pid) for pid in pids) == 1
    kill(*pids)
    job.wait_running("worker:0", attempt=2)
    eventually(lambda: synced_step(place) >= 3, 60, "more steps to be synced")
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert task(status, "worker:0").attempt == 2
    output = job.logs("worker:0")
    begin = next(line for line in output if "#2" in line and "begins at" in line)
    end = next(line for line in output if "#2" in line and "ends at" in line)
    assert int(begin.split()[-1]) >= 1
    # The last sync took what the program wrote last.
    assert synced_step(place) == int(end.split()[-1]) == int((ytf.gate / "step").read_text())
    assert any("nothing was synced to file://" in line for line in output)
    assert any("the last snapshot of file://" in line and "restored" in line for line in output)
    assert not any(is_alive(pid) for pid in pids)


def test_a_torn_file_is_replaced_by_the_last_whole_one(ytf: Ytf) -> None:
    program = """
cat checkpoints/model > "$GATE/found.$YTF_ATTEMPT.new" 2>/dev/null
mv "$GATE/found.$YTF_ATTEMPT.new" "$GATE/found.$YTF_ATTEMPT"
[ $YTF_ATTEMPT = 2 ] && exit 0
mkdir checkpoints; echo whole > checkpoints/model
until [ -e "$GATE/fail" ]; do sleep 0.05; done
printf hal > checkpoints/model
kill -9 $$
"""
    job = ytf.submit_spec(
        groups={"worker": {"count": 1, "on_failure": "restart-task", "backoff": QUICK}},
        command=program,
        checkpoint_sync={"dir": "checkpoints", "to": "run10", "interval_s": 1},
    )
    model = ytf.work / "run10" / "model"
    eventually(model.exists, 60, "the model to be synced")
    ytf.tell("fail")
    job.end("SUCCEEDED")
    assert ytf.told("found.1") == ""
    assert ytf.told("found.2") == "whole\n"
    assert model.read_text() == "whole\n"


def test_a_program_whose_checkpoints_are_not_safe_has_failed(ytf: Ytf) -> None:
    (ytf.work / "run10").mkdir()
    job = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        command='mkdir c; echo x > c/x; touch "$GATE/here"; '
        'until [ -e "$GATE/go" ]; do sleep 0.05; done',
        checkpoint_sync={"dir": "c", "to": "run10", "interval_s": 1, "final_s": 1},
    )
    ytf.told("here")
    area = ytf.work / "run10" / ".ytf-sync"
    eventually(lambda: list(area.glob("claim-*/manifest-*")), 60, "a snapshot")
    area.rename(area.with_name("moved away"))
    area.write_text("in the way")
    ytf.open_gate()
    status = job.end("FAILED")
    assert "the checkpoints could not be synced" in status.diagnostics


def test_a_snapshot_that_cannot_be_restored_starts_no_program(ytf: Ytf) -> None:
    spec = {"dir": "c", "to": "run10", "interval_s": 1}
    first = ytf.submit_spec(
        groups={"worker": {"count": 1}},
        command="mkdir c; echo x > c/x",
        checkpoint_sync=spec,
    )
    first.end("SUCCEEDED")
    (ytf.work / "run10/x").write_text("y\n")
    second = ytf.submit_spec(
        groups={"worker": {"count": 1}}, command='touch "$GATE/ran"', checkpoint_sync=spec
    )
    status = second.end("FAILED")
    assert "the checkpoints could not be restored" in status.diagnostics
    assert "x cannot be restored: it is not what was synced" in status.diagnostics
    assert not (ytf.gate / "ran").exists()
