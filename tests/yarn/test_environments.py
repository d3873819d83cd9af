"""What a job brings along to nodes that need have nothing: environments, files, a Python."""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import venv
from pathlib import Path

from tests.yarn.driver import Yarn
from ytf.packaging.made_environments import DOWNLOADS

WHERE = """
import pathlib, sys, own
print("own", own.ANSWER, "prefix", pathlib.Path(sys.prefix).name, "of", sys.version_info[:2])
print("data", pathlib.Path("data/a file").read_text(), "extra", pathlib.Path("extra").read_text())
"""


def environment(place: Path) -> Path:
    """A small virtual environment with a package of its own."""
    venv.create(place, with_pip=False)
    packages = place / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (packages / "own.py").write_text("ANSWER = 42\n")
    # An editable install whose source cannot be found.
    info = packages / "lost-1.0.dist-info"
    info.mkdir()
    (packages / "lost.pth").write_text("import lost_editable_hook\n")
    (info / "RECORD").write_text("lost.pth,,\n")
    (info / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    return place


def test_an_environment_a_script_and_files_from_here_and_from_hdfs(yarn: Yarn) -> None:
    environment(yarn.work / "my env")
    (yarn.work / "extra").write_text("from here")
    folder = f"/data of {yarn.work.name}"
    yarn.files.mkdir(f"{folder}/input")
    yarn.files.write(f"{folder}/where.py", [WHERE.encode()])
    yarn.files.write(f"{folder}/input/a file", [b"from hdfs"])
    url = f"{yarn.cluster.hdfs_url}{folder}"
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", "--wait", "--framework", "none", "-m", "200",
        "--env", "my env", "-s", f"hdfs://{folder}/where.py",
        "--files", f"data={url}/input", "--files", f"twice.py=hdfs://{folder}/where.py",
        "--files", "extra", "-i", f"hdfs://{folder}/input",
        "-r", "worker:2",
        'python $DTF_TASK_SCRIPT; cmp $DTF_TASK_SCRIPT twice.py; echo "input $DTF_INPUT_PATH"',
    )  # fmt: skip
    assert "note: lost is an editable install by an unknown tool" in done.stderr
    job = done.stdout.strip()
    lines = yarn.run("ytf", "logs", job).stdout.splitlines()
    for task in ("worker:0", "worker:1"):
        said = [line.partition(" | ")[2] for line in lines if line.startswith(f"{task} | ")]
        assert said[0].startswith("own 42 prefix environment of"), said
        assert said[0].endswith(f"of {sys.version_info[:2]}")
        assert said[1:] == ["data from hdfs extra from here", f"input hdfs://{folder}/input"]


def packed(place: Path) -> bytes:
    """An archive of an environment."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(place, ".")
    return data.getvalue()


def test_an_environment_that_is_a_file_in_hdfs(yarn: Yarn) -> None:
    own = environment(yarn.work / "env")
    folder = f"/envs of {yarn.work.name}"
    yarn.files.mkdir(f"{folder}/folder.zip")
    yarn.files.write(f"{folder}/env.tar.gz", [packed(own)])
    url = f"hdfs://{folder}/env.tar.gz"
    made = yarn.home / "environments"
    options = ("--framework", "none", "-m", "200", "-r", "worker:1", "--logs", "--wait")
    command = "python -c 'import own; print(own.ANSWER)'"

    planned = yarn.run("ytf-submit", "--dryrun", *options[:-2], "--env", url, command).stdout
    (path,) = [Path(line[5:]) for line in planned.splitlines() if line.startswith("env: ")]
    assert path.parent == made
    assert not path.exists()

    done = yarn.run("ytf-submit", "--backend", "yarn", *options, "--env", url, command)
    assert f"ytf-submit: downloading {url}, " in done.stderr
    assert "worker:0 | 42" in done.stderr
    assert path.exists()
    assert list((made / DOWNLOADS).iterdir()) == []

    # On one machine it is the same one, also by another URL of it in a job file.
    conf = shutil.copytree(yarn.cluster.conf_dir, yarn.work / "conf")
    text = (conf / "core-site.xml").read_text()
    mount = (
        "<property><name>fs.viewfs.mounttable.my.link./envs</name>"
        f"<value>{yarn.cluster.hdfs_url}{folder}</value></property></configuration>"
    )
    (conf / "core-site.xml").write_text(text.replace("</configuration>", mount))
    (yarn.work / "job.yaml").write_text(
        "groups: {worker: {count: 1}}\nframework: none\nenv: viewfs://my/envs/env.tar.gz\n"
        f'command: "{command}"\n'
    )
    done = yarn.run(
        "ytf", "submit", "--backend", "local", "--wait", "--logs", "job.yaml",
        HADOOP_CONF_DIR=str(conf),
    )  # fmt: skip
    assert "worker:0 | 42" in done.stderr
    assert "downloading" not in done.stderr

    # A changed file is another one.
    (next(own.rglob("own.py"))).write_text("ANSWER = 43\n")
    yarn.files.delete(f"{folder}/env.tar.gz")
    yarn.files.write(f"{folder}/env.tar.gz", [packed(own)])
    done = yarn.run("ytf-submit", "--backend", "local", *options, "--env", url, command)
    assert "worker:0 | 43" in done.stderr

    for name, message in (
        ("no.pex", f"--env: there is no file hdfs://{folder}/no.pex"),
        ("folder.zip", "is a directory"),
    ):
        done = yarn.run("ytf-submit", *options, "--env", f"hdfs://{folder}/{name}", "true", code=2)
        assert message in done.stderr
    yarn.files.delete(folder)


def test_nodes_may_have_a_python_for_ytf_itself(yarn: Yarn) -> None:
    command = "readlink /proc/$PPID/exe; ls -d .ytf/layers/*"
    job = yarn.submit("worker:1", command, "--python", sys.executable)
    yarn.wait(job, "SUCCEEDED")
    own = yarn.run("ytf", "logs", job).stdout.splitlines()
    assert own[0] == f"worker:0 | {Path(sys.executable).resolve()}"

    # By default it is one of the layers, so that nodes need none.
    job = yarn.submit("worker:1", command)
    yarn.wait(job, "SUCCEEDED")
    brought = yarn.run("ytf", "logs", job).stdout.splitlines()
    assert "/filecache/" in brought[0]
    assert len(brought) == len(own) + 1


def test_a_python_that_is_not_there_is_named(yarn: Yarn) -> None:
    done = yarn.run(
        "ytf-submit", "--backend", "yarn", "--wait", "--framework", "none", "-m", "200",
        "--python", "/no/such/python", "-r", "worker:1", "true", code=1,
    )  # fmt: skip
    assert "has no /no/such/python: name another with --python" in done.stderr
    yarn.nothing_is_left(done.stdout.strip())
