"""What programs are given to read HDFS: TensorFlow's plugin, or what libhdfs needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.harness import Ytf
from ytf.packaging.hdfs_plugin import find_plugin

PLUGIN = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
DUMP = """\
import json, os, pathlib
new = pathlib.Path(os.environ["GATE"], os.environ["YTF_TASK"] + ".new")
new.write_text(json.dumps(dict(os.environ)))
new.rename(new.with_suffix(".json"))
"""


def variables(ytf: Ytf, task: str) -> dict[str, Any]:
    """The variables of a task's program; the file goes."""
    seen: dict[str, Any] = json.loads(ytf.told(f"{task}.json"))
    (ytf.gate / f"{task}.json").unlink()
    return seen


def dump(ytf: Ytf, *options: str) -> tuple[dict[str, Any], str]:
    """The variables of a task with these options, and what the submitter was told."""
    (ytf.work / "dump.py").write_text(DUMP)
    words = ("--wait", "-r", "worker:1", "-s", "dump.py", *options, "python3 $DTF_TASK_SCRIPT")
    done = ytf.run("ytf-submit", *words)
    return variables(ytf, "worker:0"), done.stderr


def test_tensorflow_programs_get_the_plugin_and_others_do_not(ytf: Ytf) -> None:
    conf = ytf.work / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text("<configuration/>")
    # Relative, and by the other name: tasks have working directories of their own.
    ytf.env["YARN_CONF_DIR"] = "conf"
    plugin = find_plugin()
    assert plugin is not None, "scripts/environment hdfs installs it"
    (ytf.work / "job.yaml").write_text(
        f"""\
framework: tensorflow
script: dump.py
command: python3 $DTF_TASK_SCRIPT
groups:
  worker: {{count: 1}}
  own: {{count: 1, task_env: {{{PLUGIN}: /own/plugins}}}}
  other: {{count: 1, framework: none}}
"""
    )
    (ytf.work / "dump.py").write_text(DUMP)
    done = ytf.run("ytf", "submit", "--wait", "job.yaml")
    seen = {task: variables(ytf, task) for task in ("worker:0", "own:0", "other:0")}
    assert seen["worker:0"][PLUGIN] == plugin
    assert seen["worker:0"]["HADOOP_CONF_DIR"] == str(conf)
    assert seen["own:0"][PLUGIN] == "/own/plugins"
    assert f"task_env sets {PLUGIN} for own" in done.stderr
    assert PLUGIN not in seen["other:0"]
    assert plugin in ytf.run("ytf", "submit", "--dryrun", "job.yaml").stdout


def test_a_job_may_say_no(ytf: Ytf) -> None:
    seen, told = dump(ytf, "--no_hdfs_plugin", "-i", "hdfs://nowhere.invalid/x")
    assert PLUGIN not in seen
    assert "hdfs://nowhere.invalid/x cannot be opened from here: nowhere.invalid is neither" in told


def test_the_client_gets_the_plugin_too(ytf: Ytf) -> None:
    (ytf.work / "dump.py").write_text(DUMP)
    ytf.run(
        *("ytf-submit", "--client", "-r", "worker:1", "-s", "dump.py"),
        *("--client_command", "python3 $DTF_TASK_SCRIPT", "true"),
    )
    assert variables(ytf, "client:0")[PLUGIN] == find_plugin()


def test_an_environment_with_tensorflow_io_is_left_alone(ytf: Ytf, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (environment / "bin" / name).symlink_to("/usr/bin/env")
    (environment / "pyvenv.cfg").touch()
    packages = environment / "lib" / "python3.11" / "site-packages"
    (packages / "tensorflow_io-0.37.1.dist-info").mkdir(parents=True)
    done = ytf.run(
        *("ytf-submit", "--wait", "-r", "worker:1", "--env", str(environment)),
        'env > "$GATE/worker:0.new"; mv "$GATE/worker:0.new" "$GATE/seen"',
    )
    assert PLUGIN not in ytf.told("seen")
    assert f"{packages} has tensorflow-io" in done.stderr


HADOOP = """#!/bin/sh
echo /hadoop/a.jar:/hadoop/b.jar
"""


def make_hadoop(folder: Path) -> Path:
    """A Hadoop and a Java that answer as real ones; returns their directory."""
    for name, text in (("hadoop", HADOOP), ("java", "#!/bin/sh\n")):
        program = folder / name / "bin" / name
        program.parent.mkdir(parents=True)
        program.write_text(text)
        program.chmod(0o755)
    for below in ("java/lib/server/libjvm.so", "hadoop/lib/native/libhdfs.so"):
        library = folder / below
        library.parent.mkdir(parents=True)
        library.touch()
    return folder


def test_libhdfs_gets_what_it_needs_where_it_is_asked_for(ytf: Ytf, tmp_path: Path) -> None:
    node = make_hadoop(tmp_path / "node")
    ytf.env |= {"HADOOP_HOME": str(node / "hadoop"), "JAVA_HOME": str(node / "java")}
    for name in ("CLASSPATH", "LD_LIBRARY_PATH"):
        ytf.env.pop(name, None)
    seen, _ = dump(ytf, "--libhdfs")
    assert seen["CLASSPATH"] == "/hadoop/a.jar:/hadoop/b.jar"
    assert seen["HADOOP_HDFS_HOME"] == str(node / "hadoop")
    libraries = f"{node}/java/lib/server:{node}/hadoop/lib/native"
    assert seen["LD_LIBRARY_PATH"].endswith(libraries)
    seen, _ = dump(ytf)
    assert not {"CLASSPATH", "HADOOP_HDFS_HOME"} & set(seen)


def test_libhdfs_on_a_node_without_hadoop_fails_and_says_so(ytf: Ytf) -> None:
    for name in ("HADOOP_HOME", "HADOOP_HDFS_HOME", "HADOOP_COMMON_HOME"):
        ytf.env.pop(name, None)
    done = ytf.run("ytf-submit", "--wait", "--libhdfs", "-r", "worker:1", "true", code=1)
    assert "worker:0" in done.stderr
    assert "cannot provide libhdfs: there is no command hadoop" in done.stderr
