from __future__ import annotations

from pathlib import Path

import pytest

from ytf.client import settings
from ytf.errors import SettingsError
from ytf.home import home


def _environ(home: Path, **more: str) -> dict[str, str]:
    return {"YTF_HOME": str(home), **more}


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ytf.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_win_over_environment_over_project_over_user(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    user_file = _write(home, 'queue = "user"\nname = "user"\nenv = "user"\nregistry = "rest"')
    project_file = _write(project, 'queue = "project"\nname = "project"\nenv = "project"')
    found = settings.load(
        {"queue": "flag", "backend": None},
        environ=_environ(home, YTF_QUEUE="variable", YTF_NAME="variable"),
        cwd=project,
    )
    assert found.values == {
        "queue": "flag",
        "name": "variable",
        "env": str(project / "project"),
        "registry": "rest",
    }
    assert found.sources == {
        "queue": "--queue",
        "name": "the variable YTF_NAME",
        "env": str(project_file),
        "registry": str(user_file),
    }


def test_the_nearest_project_file_counts(tmp_path: Path) -> None:
    _write(tmp_path, 'queue = "far"')
    _write(tmp_path / "a", 'queue = "near"')
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    found = settings.load(environ=_environ(tmp_path / "none"), cwd=deep)
    assert found.get("queue") == "near"


def test_the_users_file_is_not_read_twice_from_within_home(tmp_path: Path) -> None:
    _write(tmp_path, 'queue = "q"')
    found = settings.load(environ=_environ(tmp_path), cwd=tmp_path)
    assert found.get("queue") == "q"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("sub", "{file}/sub"), ("/a", "/a"), ("~/a", "{user}/a"), ("node", "node")],
)
def test_a_path_is_relative_to_where_it_is_written(
    tmp_path: Path, written: str, meant: str
) -> None:
    _write(tmp_path, f'env = "{written}"')
    deep = tmp_path / "deep"
    deep.mkdir()
    environ = _environ(tmp_path / "none")
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


def test_home(tmp_path: Path) -> None:
    assert home({"YTF_HOME": str(tmp_path)}) == tmp_path
    assert home({}) == Path.home() / ".ytf"
