from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.another_user import give_away
from ytf.client import settings
from ytf.errors import SettingsError
from ytf.home import home
from ytf.specs.settings import SETTINGS


def _environ(home: Path, **more: str) -> dict[str, str]:
    return {"YTF_HOME": str(home), **more}


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ytf.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_how_long_mlflow_is_waited_for(tmp_path: Path) -> None:
    def timeout_s(**variables: str) -> float:
        loaded = settings.load({}, environ=_environ(tmp_path, **variables), cwd=tmp_path)
        return settings.mlflow_timeout_s(loaded)

    assert timeout_s() == 10.0
    assert timeout_s(YTF_MLFLOW_TIMEOUT="0") == 0.0
    assert timeout_s(YTF_MLFLOW_TIMEOUT="1m30s") == 90.0
    for wrong in ("soon", "-1", "11m"):
        with pytest.raises(SettingsError, match="from the variable YTF_MLFLOW_TIMEOUT"):
            timeout_s(YTF_MLFLOW_TIMEOUT=wrong)


def test_flags_win_over_environment_over_project_over_user(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    user_file = _write(home, 'queue = "user"\nname = "user"\nenv = "user"\ntags = "user"')
    project_file = _write(project, 'queue = "project"\nname = "project"\ntags = "project"')
    found = settings.load(
        {"queue": "flag", "backend": None},
        environ=_environ(home, YTF_QUEUE="variable", YTF_NAME="variable"),
        cwd=project,
    )
    assert found.values == {
        "queue": "flag",
        "name": "variable",
        "env": str(home / "user"),
        "tags": "project",
    }
    assert found.sources == {
        "queue": "--queue",
        "name": "the variable YTF_NAME",
        "env": str(user_file),
        "tags": str(project_file),
    }


def test_the_nearest_project_file_counts(tmp_path: Path) -> None:
    _write(tmp_path, 'queue = "far"')
    _write(tmp_path / "a", 'queue = "near"')
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    found = settings.load(environ=_environ(tmp_path / "none"), cwd=deep)
    assert found.get("queue") == "near"


def test_an_empty_project_file_counts_too(tmp_path: Path) -> None:
    _write(tmp_path, 'queue = "far"')
    _write(tmp_path / "a", "")
    found = settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path / "a")
    assert found.values == {}


def test_the_users_file_is_no_project_file_even_through_a_link(tmp_path: Path) -> None:
    _write(tmp_path, 'queue = "far"')
    _write(tmp_path / "real", "history_days = 3")
    (tmp_path / "link").symlink_to("real")
    told: list[str] = []
    environ = _environ(tmp_path / "link")
    found = settings.load(environ=environ, cwd=tmp_path / "real", notify=told.append)
    assert found.values == {"history_days": "3"}
    assert told == []


def test_the_users_file_is_not_read_twice_from_within_home(tmp_path: Path) -> None:
    _write(tmp_path, 'queue = "q"')
    found = settings.load(environ=_environ(tmp_path), cwd=tmp_path)
    assert found.get("queue") == "q"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sub", "{file}/sub"),
        ("/a", "/a"),
        ("~/a", "{user}/a"),
        ("node", "node"),
        ("hdfs:///a", "hdfs:///a"),
    ],
)
def test_a_path_is_relative_to_where_it_is_written(
    tmp_path: Path, written: str, meant: str
) -> None:
    _write(tmp_path, f'env = "{written}"')
    deep = tmp_path / "deep"
    deep.mkdir()
    environ = _environ(tmp_path)
    found = settings.load(environ=environ, cwd=deep)
    assert found.get("env") == meant.format(file=tmp_path, user=Path.home())
    found = settings.load(environ=environ | {"YTF_ENV": written}, cwd=deep)
    assert found.get("env") == meant.format(file=deep, user=Path.home())


def test_a_working_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SettingsError, match="working directory does not exist"):
        settings.load(environ=_environ(tmp_path))
    with pytest.raises(SettingsError, match="relative to a working directory that does not exist"):
        home({"YTF_HOME": "relative"})


def test_numbers_are_taken_as_written(tmp_path: Path) -> None:
    _write(tmp_path, 'task_vcores = 2\ntask_memory = "2 GiB"')
    found = settings.load(environ=_environ(tmp_path), cwd=tmp_path)
    assert found.values == {"task_vcores": "2", "task_memory": "2 GiB"}


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    found = settings.load(environ=_environ(tmp_path, YTF_QUEUE=""), cwd=tmp_path)
    assert found.get("queue") is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('queu = "x"', "there is no setting 'queu'", "did you mean 'queue'?"),
        ("zzz = 1", "there is no setting 'zzz'", "known are: backend, queue"),
        ("queue = true", "queue must be a string or a number, not True", None),
        ("queue = [1]", "queue must be a string or a number", None),
        ("queue = ", "is not valid TOML", None),
        (f"priority = {'9' * 5000}", "is not valid TOML", None),
        ('backend = "slurm"', "there is no backend 'slurm'", "use one of: local, yarn"),
    ],
)
def test_what_is_wrong_in_a_file_is_refused_by_name(
    tmp_path: Path, text: str, message: str, hint: str | None
) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert hint is None or (caught.value.hint or "").startswith(hint)


def test_a_file_that_cannot_be_decoded(tmp_path: Path) -> None:
    (tmp_path / "ytf.toml").write_bytes(b"queue = '\xff'")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path)


class TestFilesOfOthers:
    """A file that another user can have written is ignored, and so is what only users decide."""

    def test_a_project_file_of_another_user(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        environ = _environ(tmp_path / "none")
        give_away(_write(tmp_path, 'queue = "theirs"'), monkeypatch)
        found = settings.load(environ=environ, cwd=tmp_path, notify=told.append)
        assert found.values == {}
        assert any(f"ignored: {tmp_path}/ytf.toml belongs to" in text for text in told)
        assert any("make a copy of your own" in text for text in told)

    def test_it_does_not_hide_an_own_file_above(self, tmp_path: Path) -> None:
        _write(tmp_path, 'queue = "mine"')
        _write(tmp_path / "deep", 'queue = "theirs"').chmod(0o666)
        told: list[str] = []
        environ = _environ(tmp_path / "none")
        found = settings.load(environ=environ, cwd=tmp_path / "deep", notify=told.append)
        assert found.get("queue") == "mine"
        (text,) = told
        assert text == (
            f"ignored: {tmp_path}/deep/ytf.toml can be written by everyone "
            f"(look at what is in it, then: chmod go-w {tmp_path}/deep/ytf.toml)"
        )

    @pytest.mark.parametrize("mode", [0o777, 0o1777])
    def test_the_users_file_in_a_home_that_others_can_write(
        self, tmp_path: Path, mode: int
    ) -> None:
        _write(tmp_path / "home", "history_days = 0")
        (tmp_path / "home").chmod(mode)
        (tmp_path / "work").mkdir()
        told: list[str] = []
        environ = _environ(tmp_path / "home")
        found = settings.load(environ=environ, cwd=tmp_path / "work", notify=told.append)
        assert found.values == {}
        (text,) = told
        assert "the user's settings are ignored" in text
        assert "set YTF_HOME to a directory of yours" in text
        with pytest.raises(SettingsError, match="can be written by everyone"):
            home(environ)

    def test_the_users_own_file_that_everyone_can_write(self, tmp_path: Path) -> None:
        _write(tmp_path / "home", "history_days = 0").chmod(0o666)
        told: list[str] = []
        found = settings.load(environ=_environ(tmp_path / "home"), cwd=tmp_path, notify=told.append)
        assert found.values == {}
        assert len(told) == 1

    def test_a_file_that_cannot_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = _write(tmp_path, 'queue = "q"')
        lstat = os.lstat

        def refuse(asked: Path) -> os.stat_result:
            if asked == path:
                raise PermissionError(errno.EACCES, "Permission denied", str(asked))
            return lstat(asked)

        monkeypatch.setattr(os, "lstat", refuse)
        told: list[str] = []
        found = settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path, notify=told.append)
        assert found.values == {}
        assert told == [f"ignored: {path} cannot be read: Permission denied"]

    def test_a_pipe_and_a_directory_of_the_name(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "ytf.toml")
        deep = tmp_path / "deep"
        (deep / "ytf.toml").mkdir(parents=True)
        told: list[str] = []
        found = settings.load(environ=_environ(tmp_path / "none"), cwd=deep, notify=told.append)
        assert found.values == {}
        assert [text.partition(" (")[0] for text in told] == [
            f"ignored: {deep}/ytf.toml is not a regular file",
            f"ignored: {tmp_path}/ytf.toml is not a regular file",
        ]

    def test_a_huge_file_is_refused(self, tmp_path: Path) -> None:
        _write(tmp_path, "#" * (1 << 20))
        with pytest.raises(SettingsError, match="is longer than 256 KiB"):
            settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path)

    def test_a_deeply_nested_file_is_refused(self, tmp_path: Path) -> None:
        _write(tmp_path, "queue = " + "[" * 100_000)
        with pytest.raises(SettingsError, match=str(tmp_path)):
            settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path)

    @pytest.mark.parametrize("key", ["env", "python", "acl_view", "acl_modify", "history_days"])
    def test_what_runs_or_removes_or_opens_is_the_users_alone(
        self, tmp_path: Path, key: str
    ) -> None:
        _write(tmp_path, f'{key} = "0"\nqueue = "q"')
        told: list[str] = []
        found = settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path, notify=told.append)
        assert found.values == {"queue": "q"}
        (text,) = told
        assert text.startswith(f"ignored: {key} in {tmp_path}/ytf.toml: it ")
        assert f"{tmp_path}/none/ytf.toml" in text
        assert f"YTF_{key.upper()}" in text
        own = settings.load(environ=_environ(tmp_path), cwd=tmp_path)
        assert own.get(key) is not None

    def test_every_setting_says_whether_a_project_may_set_it(self) -> None:
        """A new setting must be thought about: does it run, remove or open anything?"""
        assert {key for key, setting in SETTINGS.items() if not setting.only_user} == {
            *("backend", "queue", "name", "framework", "priority", "tags"),
            *("node_label", "gpus_per_node", "task_vcores", "task_memory"),
            # They open nothing: a program may listen on any port, whatever ytf takes for it.
            *("task_ports", "control_ports"),
            # At most minutes of a wait; whether there is a server to wait for, the user says.
            "mlflow_timeout",
        }

    def test_a_line_is_printed_once(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        _write(tmp_path, "history_days = 0")
        for _ in range(2):
            settings.load(environ=_environ(tmp_path / "none"), cwd=tmp_path)
        assert capsys.readouterr().err.count("history_days") == 1


class TestBackendChoice:
    def test_what_is_set(self, tmp_path: Path) -> None:
        environ = _environ(tmp_path, YTF_BACKEND="local")
        choice = settings.choose_backend(settings.load(environ=environ, cwd=tmp_path))
        assert choice == settings.BackendChoice(
            name="local", reason="from the variable YTF_BACKEND"
        )

    @pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
    def test_yarn_where_a_configuration_is(self, tmp_path: Path, variable: str) -> None:
        (tmp_path / "yarn-site.xml").touch()
        choice = settings.choose_backend(
            settings.Settings(), environ={variable: str(tmp_path), "HADOOP_HOME": ""}
        )
        assert choice.name == "yarn"
        assert str(tmp_path) in choice.reason

    def test_yarn_below_hadoop_home(self, tmp_path: Path) -> None:
        conf = tmp_path / "etc" / "hadoop"
        conf.mkdir(parents=True)
        (conf / "yarn-site.xml").touch()
        environ = {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_HOME": str(tmp_path)}
        choice = settings.choose_backend(settings.Settings(), environ=environ)
        assert choice == settings.BackendChoice(
            name="yarn", reason=f"Hadoop configuration in {conf}"
        )

    @pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
    def test_a_cluster_that_is_named_but_not_there_is_not_passed_over(
        self, tmp_path: Path, variable: str
    ) -> None:
        with pytest.raises(SettingsError, match=variable) as caught:
            settings.choose_backend(settings.Settings(), environ={variable: str(tmp_path)})
        assert "--backend local" in (caught.value.hint or "")

    def test_local_elsewhere(self, tmp_path: Path) -> None:
        environ = {"HADOOP_CONF_DIR": "", "HADOOP_HOME": str(tmp_path)}
        choice = settings.choose_backend(settings.Settings(), environ=environ)
        assert choice == settings.BackendChoice(
            name="local", reason="no Hadoop configuration found"
        )
