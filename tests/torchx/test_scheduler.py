"""What torchx expects of any scheduler, and what it is told of jobs."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from torchx.runner.api import Runner
from torchx.schedulers import DEFAULT_SCHEDULER_MODULES, get_scheduler_factories
from torchx.specs import AppDef, AppState, InvalidRunConfigException, Resource, Role, is_terminal

from ytf.backends.api import LogLine
from ytf.specs.ids import TaskId
from ytf.specs.status import JobState, TaskState
from ytf.torchx import scheduler as scheduler_module
from ytf.torchx.scheduler import YarnScheduler, _selected, create_scheduler


@pytest.fixture
def scheduler() -> YarnScheduler:
    return create_scheduler("a session", other="parameter")


def app(**fields: object) -> AppDef:
    given = {"resource": Resource(cpu=1, gpu=0, memMB=100), "entrypoint": "true", **fields}
    return AppDef(name="a", roles=[Role(name="r", image="", **given)])  # type: ignore[arg-type]


def test_no_scheduler_of_torchx_is_lost() -> None:
    found = {point.name: point.value for point in entry_points(group="torchx.schedulers")}
    ours = found.pop("yarn")
    assert ours == "ytf.torchx.scheduler:create_scheduler"
    assert found == {
        name: f"{module}:create_scheduler" for name, module in DEFAULT_SCHEDULER_MODULES.items()
    }
    made = get_scheduler_factories()["yarn"]("torchx")
    assert isinstance(made, YarnScheduler)


def test_options_have_types(scheduler: YarnScheduler) -> None:
    options = scheduler.run_opts()
    assert options.cfg_from_str("tags=a,b,docker=true,priority=3,queue=ml") == {
        "tags": ["a", "b"],
        "docker": True,
        "priority": 3,
        "queue": "ml",
    }
    for wrong in ({"queue": 7}, {"docker": "yes"}, {"tags": "a"}):
        with pytest.raises(InvalidRunConfigException):
            scheduler.submit_dryrun(app(), wrong)


def test_a_dryrun_shows_the_job(scheduler: YarnScheduler) -> None:
    role = app(args=["ünï"]).roles[0]
    role.pre_proc = MagicMock(side_effect=lambda _, info: info)  # type: ignore[method-assign]
    info = scheduler.submit_dryrun(AppDef(name="a", roles=[role]), {"backend": "local"})
    role.pre_proc.assert_called_once()
    assert "backend: local" in str(info)
    assert "exec true 'ünï'" in str(info)


def test_a_role_without_resources_is_refused(scheduler: YarnScheduler) -> None:
    with pytest.raises(ValueError, match="No resource for role"):
        scheduler._validate(AppDef(name="a", roles=[Role(name="r", image="")]), "yarn")


def test_what_does_not_exist_is_not_described(
    scheduler: YarnScheduler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("YTF_HOME", str(tmp_path))
    for unknown in ("local_20200101000000_0000", "no id", "@last"):
        assert scheduler.describe(unknown) is None
        assert not scheduler.exists(unknown)
        scheduler.cancel(unknown)


def test_a_directory_as_image_takes_the_place_of_the_workspace(
    scheduler: YarnScheduler, tmp_path: Path
) -> None:
    role = app().roles[0]
    role.image = str(tmp_path)
    runner = Runner("s", {"yarn": lambda *_, **__: scheduler})
    given = AppDef(name="a", roles=[role])
    for workspace in ("/somewhere/else", None):
        info = runner.dryrun(given, "yarn", {}, workspace=workspace)
        assert info.request.spec.files == {"torchx_role_r": str(tmp_path)}


def test_copies_of_workspaces_go_with_the_scheduler(
    scheduler: YarnScheduler, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    role = app().roles[0]
    scheduler.build_workspace_and_update_role(role, f"file://{tmp_path}", {})
    copy = Path(role.metadata["yarn.workspace"])
    assert [path.name for path in copy.iterdir()] == ["train.py"]
    scheduler.close()
    assert not copy.parent.exists()
    scheduler.close()


def test_lines_are_selected_and_safe_to_print() -> None:
    def line(stream: str, text: str) -> LogLine:
        return LogLine(TaskId("r:0"), 1, stream, text)

    lines = [
        line("stdout", "a\tb \x1b[31mred\x1b[0m"),
        line("stderr", "\x1b]0;title\x07"),
        line("stdout", ""),
    ]
    assert list(_selected(lines, None, None)) == [
        "a\tb \x1b[31mred\x1b[0m\n",
        "\\x1b]0;title\\x07\n",
        "\n",
    ]
    assert list(_selected(lines, "stderr", None)) == ["\\x1b]0;title\\x07\n"]
    assert list(_selected(lines, "stdout", re.compile("^a"))) == ["a\tb \x1b[31mred\x1b[0m\n"]


def test_every_state_has_its_like() -> None:
    assert scheduler_module._JOB_STATES.keys() == set(JobState)
    assert scheduler_module._TASK_STATES.keys() == set(TaskState)
    for state, told in scheduler_module._JOB_STATES.items():
        assert is_terminal(told) == state.is_final
    assert AppState.UNKNOWN not in scheduler_module._TASK_STATES.values()
