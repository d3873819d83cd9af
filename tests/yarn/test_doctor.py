"""``ytf doctor`` on a real Hadoop: all is well, and what is told of what is not."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.yarn.driver import Yarn
from ytf.minicluster import MiniCluster
from ytf.minicluster.configuration import to_xml
from ytf.specs.checks import CheckName
from ytf.testing.waiting import eventually

Results = dict[str, dict[str, str]]


def doctor(yarn: Yarn, *options: str, code: int = 0, conf: Path | None = None) -> Results:
    """The result of each check by its name."""
    argv = ("ytf", "doctor", "--json", "--backend", "yarn", *options)
    place = str(conf or yarn.cluster.conf_dir)
    done = yarn.run(*argv, code=code, timeout_s=240, HADOOP_CONF_DIR=place)
    return {each["name"]: each for each in json.loads(done.stdout)}


def states(results: Results, state: str) -> set[str]:
    return {name for name, each in results.items() if each["state"] == state}


@pytest.fixture
def elsewhere(yarn: Yarn, tmp_path: Path) -> Path:
    """A copy of the configuration, to be changed."""
    place = tmp_path / "conf"
    shutil.copytree(yarn.cluster.conf_dir, place)
    return place


def change(file: Path, name: str, value: str) -> None:
    """Set one property in front of all others, which are then not read: it is final."""
    wanted = to_xml({name: value}).replace("</value>", "</value><final>true</final>")
    start = wanted.index("<property>")
    property_ = wanted[start : wanted.index("</property>") + len("</property>")]
    text = file.read_text()
    file.write_text(text.replace("<configuration>", f"<configuration>{property_}", 1))


def test_all_is_well_and_nothing_is_left(yarn: Yarn) -> None:
    left = f"{yarn.root}/doctor-of-a-process-that-was-killed"
    yarn.files.mkdir(left, 0o755)
    yarn.age(left, days=1)
    found = doctor(yarn)
    of_local = {CheckName.LOOPBACK.value, CheckName.ENGINE.value}
    assert set(found) == {each.value for each in CheckName} - of_local
    # Web servers of a busy machine may be too slow for what only they tell.
    assert states(found, "ok") | {"RM clock", "node recovery"} == set(found), found
    assert " answers" in found["ResourceManager"]["text"]
    assert found["nodes"]["text"].startswith("2 nodes with 64 GiB and 128 vcores")
    assert "a file in HDFS from there" in found["test job"]["text"]
    assert not [each for each in yarn.files.list(yarn.root) if each.name.startswith("doctor")]
    ours = [job for job in _jobs(yarn) if job["name"] == "ytf doctor"]
    assert ours
    for job in ours:
        yarn.nothing_is_left(job["id"])
        assert job["id"] not in [each.name for each in yarn.files.list(f"{yarn.root}/history")]


def test_what_is_wrong_is_told_and_the_rest_is_checked_all_the_same(
    yarn: Yarn, elsewhere: Path
) -> None:
    found = doctor(yarn, "--queue", "nosuch", code=1)
    assert states(found, "failed") == {"queue"}
    assert found["queue"]["text"] == "there is no queue 'nosuch'"
    assert "root.ml" in found["queue"]["hint"]
    assert states(found, "skipped") == {"test job"}
    assert found["test job"]["text"] == "not checked, because queue failed"

    # Nobody listens where the configuration says that the NameNode is.
    change(elsewhere / "core-site.xml", "fs.defaultFS", "hdfs://127.0.0.1:9")
    found = doctor(yarn, code=1, conf=elsewhere)
    assert states(found, "failed") == {"NameNode"}
    assert found["NameNode"]["text"].startswith("127.0.0.1:9 does not answer: ")
    assert states(found, "skipped") == {
        *("HDFS home", "HDFS files", "NameNode clock", "layer store", "test job")
    }
    assert found["queue"]["state"] == "ok"


def test_a_home_of_somebody_else(yarn: Yarn) -> None:
    eve = yarn.as_user("eve")
    yarn.give("/user/eve", "mallory")
    found = doctor(eve, "--no_remote", code=1)
    assert found["HDFS home"]["text"] == "/user/eve belongs to mallory, and you are eve"
    assert "hdfs dfs -chown eve /user/eve" in found["HDFS home"]["hint"]
    assert found["HDFS files"]["state"] == "failed"
    assert "Permission denied" in found["HDFS files"]["text"]


def test_ctrl_c_kills_the_job_and_leaves_nothing(yarn: Yarn) -> None:
    with yarn.started("ytf", "doctor", "--backend", "yarn") as started:
        lines: list[str] = []
        while "ytf: submitted the job " not in (lines[-1:] or [""])[0]:
            lines.append(started.output.readline())
            assert lines[-1], "".join(lines)
        job = lines[-1].split()[-1]
        started.process.send_signal(signal.SIGINT)
        said = started.end(130)
    assert f"ytf: killing {job}\n" in said
    assert said.endswith("ytf: SIGINT: not all checks were made\n")
    yarn.nothing_is_left(job)
    assert not [each for each in yarn.files.list(yarn.root) if each.name.startswith("doctor")]
    assert job not in [each.name for each in yarn.files.list(f"{yarn.root}/history")]
    eventually(
        lambda: any(each["id"] == job and each["state"] == "KILLED" for each in _jobs(yarn)),
        describe=f"{job} to be killed",
    )


def test_a_pair_of_each_says_which_is_active(
    hadoop_pair: MiniCluster, yarn_home: Path, tmp_path: Path
) -> None:
    found = doctor(Yarn(hadoop_pair, yarn_home, tmp_path), "--no_remote")
    assert states(found, "failed") == set()
    for name in ("ResourceManager", "NameNode"):
        assert found[name]["state"] == "ok", found[name]
        assert " is active (" in found[name]["text"]
        assert found[name]["text"].endswith(" is standby")


def _jobs(yarn: Yarn) -> list[dict[str, str]]:
    told: list[dict[str, str]] = json.loads(
        yarn.run("ytf", "list", "--backend", "yarn", "--json").stdout
    )
    return told
