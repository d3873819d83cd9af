"""The checks of this machine, and which others follow from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from ytf.client.check_runner import run_checks
from ytf.client.doctor import DoctorRequest, make_checks
from ytf.specs.checks import CheckName, CheckResult, CheckState

MACHINE = [CheckName.YTF, CheckName.HOME, CheckName.SETTINGS, CheckName.BACKEND]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return {"YTF_HOME": str(tmp_path / "home")}


def of_machine(
    environ: dict[str, str], request: DoctorRequest | None = None
) -> dict[CheckName, CheckResult]:
    checks = make_checks(request or DoctorRequest(), environ)
    found = run_checks(checks[: len(MACHINE)], lambda _: None)
    return {result.name: result for result in found}


def test_all_is_well_on_a_new_machine(environ: dict[str, str]) -> None:
    found = of_machine(environ)
    assert list(found) == MACHINE
    assert {each.state for each in found.values()} == {CheckState.OK}
    assert found[CheckName.HOME].text.startswith(f"{environ['YTF_HOME']} is yours and can be")
    assert found[CheckName.SETTINGS].text == "there is no ytf.toml: all have their defaults"
    assert found[CheckName.BACKEND].text == "local (no Hadoop configuration found)"


def test_the_backend_decides_which_checks_follow(environ: dict[str, str]) -> None:
    def names(**request: object) -> list[CheckName]:
        asked = DoctorRequest(**request)  # type: ignore[arg-type]
        return [check.name for check in make_checks(asked, environ)][len(MACHINE) :]

    assert names() == [CheckName.LOOPBACK, CheckName.ENGINE, CheckName.TEST_JOB]
    assert names(runs_job=False) == [CheckName.LOOPBACK, CheckName.ENGINE]
    of_yarn = names(backend="yarn")
    assert of_yarn[0] is CheckName.CONFIGURATION
    assert of_yarn[-1] is CheckName.TEST_JOB
    assert {*MACHINE, *names(), *of_yarn} == set(CheckName)


def test_each_check_comes_after_those_it_depends_on(environ: dict[str, str]) -> None:
    seen: set[CheckName] = set()
    for check in make_checks(DoctorRequest(backend="yarn"), environ):
        assert seen.issuperset(check.needs), check.name
        seen.add(check.name)


def test_what_is_read_and_what_is_ignored_is_told(environ: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "ytf.toml").write_text("queue = 'ml'\n")
    project = tmp_path / "work" / "ytf.toml"
    project.write_text("env = 'current'\nbackend = 'local'\n")
    found = of_machine(environ)
    settings = found[CheckName.SETTINGS]
    assert settings.state is CheckState.NOTE
    assert settings.text.startswith(f"read {home / 'ytf.toml'}, {project}; ignored: env in ")
    assert "a project cannot set it" in settings.text
    assert found[CheckName.BACKEND].text == f"local (from {project})"


def test_wrong_settings_fail_and_nothing_of_a_backend_is_checked(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "work" / "ytf.toml").write_text("quue = 'ml'\n")
    assert [check.name for check in make_checks(DoctorRequest(), environ)] == MACHINE
    found = of_machine(environ)
    assert found[CheckName.SETTINGS].state is CheckState.FAILED
    assert "there is no setting 'quue'" in found[CheckName.SETTINGS].text
    assert found[CheckName.SETTINGS].hint == "did you mean 'queue'?"
    assert found[CheckName.BACKEND].state is CheckState.SKIPPED


def test_a_configuration_that_is_not_there_fails_the_backend(
    environ: dict[str, str], tmp_path: Path
) -> None:
    found = of_machine({**environ, "HADOOP_CONF_DIR": str(tmp_path)})
    assert found[CheckName.SETTINGS].state is CheckState.OK
    assert found[CheckName.BACKEND].state is CheckState.FAILED
    assert "which has no yarn-site.xml" in found[CheckName.BACKEND].text


def test_a_home_that_others_can_write_fails(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o777)
    home = of_machine(environ)[CheckName.HOME]
    assert home.state is CheckState.FAILED
    assert "can be written by everyone" in home.text
    assert "chmod go-w" in (home.hint or "")


@pytest.mark.parametrize(
    ("free", "state"),
    [(5_000_000, CheckState.FAILED), (500_000_000, CheckState.NOTE), (10**10, CheckState.OK)],
)
def test_room_on_the_disk(
    free: int, state: CheckState, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(10**12, 0, free))
    assert of_machine(environ)[CheckName.HOME].state is state
