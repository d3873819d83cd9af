"""The environment, files and arguments of a program, with awkward names and values."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from tests.e2e.harness import Ytf
from tests.packaging.venvs import Venv
from ytf.cli.help.texts import TASK_VARIABLES
from ytf.testing.waiting import eventually

DUMP = """\
import json, os, pathlib, time
gate = pathlib.Path(os.environ["GATE"])
seen = {k: v for k, v in os.environ.items() if k.startswith(("DTF_", "YTF_", "TF_"))}
seen["spec"] = json.loads(pathlib.Path(seen["YTF_CLUSTER_SPEC_FILE"]).read_text())
seen["here"] = sorted(os.listdir("."))
seen["cwd"] = os.getcwd()
new = gate / (seen["YTF_TASK"] + ".new")
new.write_text(json.dumps(seen))
new.rename(gate / (seen["YTF_TASK"] + ".json"))
while not (gate / "go").exists():
    time.sleep(0.02)
"""


def dump(ytf: Ytf, task: str) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(ytf.told(f"{task}.json"))
    return seen


def test_every_role_knows_its_place(ytf: Ytf) -> None:
    script = ytf.work / "dump.py"
    script.write_text(DUMP)
    requirement = "ps:1,chief:1,worker:2,evaluator:1"
    words = ("-r", requirement, "-s", "dump.py", "-i", "hdfs://nn/in", "-o", "/data/out")
    waiting = ytf.start("ytf-submit", *words, "--wait", "python3 $DTF_TASK_SCRIPT")
    tasks = ("ps:0", "chief:0", "worker:0", "worker:1", "evaluator:0")
    seen = {task: dump(ytf, task) for task in tasks}
    ytf.open_gate()
    stdout, stderr = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, stderr
    job = stdout.strip()
    assert stdout == f"{job}\n"
    assert job.startswith("local_")

    spec = json.loads(ytf.run("ytf", "spec", job).stdout)
    assert sorted(spec) == ["chief", "evaluator", "ps", "worker"]
    for task, env in seen.items():
        group, _, index = task.partition(":")
        assert env["DTF_TASK_JOB_NAME"] == group
        assert env["DTF_TASK_INDEX"] == index
        for name, hosts in spec.items():
            assert env[f"DTF_{name.upper()}_HOSTS"] == ",".join(hosts)
        assert "DTF_CLIENT_HOSTS" not in env
        assert env["DTF_TASK_SCRIPT"] == "dump.py"
        assert env["DTF_INPUT_PATH"] == "hdfs://nn/in"
        assert env["DTF_OUTPUT_PATH"] == "/data/out"
        own = spec[group][int(index)]
        assert own == f"{env['YTF_TASK_HOST']}:{env['YTF_TASK_PORT']}"
        assert env["YTF_JOB_ID"] == job
        assert (env["YTF_ATTEMPT"], env["YTF_GENERATION"]) == ("1", "1")
        assert env["spec"] == {"generation": 1, "revision": 1, "members": spec}
        config = json.loads(env["TF_CONFIG"])
        training = {name: hosts for name, hosts in spec.items() if name != "evaluator"}
        assert config == {"cluster": training, "task": {"type": group, "index": int(index)}}
        assert "YTF_STARTER" not in env
        made = {name for name in env if name.isupper()} - set(ytf.env)
        hosts_of = {f"DTF_{name.upper()}_HOSTS" for name in spec}
        assert made - hosts_of <= set(TASK_VARIABLES), (
            "a variable is not in ytf help task-variables"
        )
    containers = {env["YTF_CONTAINER_ID"] for env in seen.values()}
    assert len(containers) == len({env["cwd"] for env in seen.values()}) == len(tasks)


def test_without_a_framework_there_is_no_tf_config(ytf: Ytf) -> None:
    (ytf.work / "dump.py").write_text(DUMP)
    job = ytf.submit("trainer:1", "python3 $DTF_TASK_SCRIPT", "-s", "dump.py")
    seen = dump(ytf, "trainer:0")
    ytf.open_gate()
    job.end("SUCCEEDED")
    assert "TF_CONFIG" not in seen
    assert "DTF_INPUT_PATH" not in seen
    assert seen["DTF_TRAINER_HOSTS"] == f"127.0.0.1:{seen['YTF_TASK_PORT']}"


def test_any_quoting_spaces_and_unicode_survive(ytf: Ytf) -> None:
    (ytf.work / "my träin.py").write_text(DUMP)
    (ytf.work / "däta file.txt").write_text("zwölf")
    nested = ytf.work / "a dir, with" / "deep ✓"
    nested.mkdir(parents=True)
    (nested / "x y").write_text("inside")
    command = (
        """printf '<%s>\\n' "a  b" 'c"d' 'e'\\''f' "ünï ✓" \\$HOME $'t\\tb' > "$GATE/words"\n"""
        """cat "däta file.txt" 'a dir, with/deep ✓/x y' >> "$GATE/words"\n"""
        "# a comment, then the script unquoted\n"
        "python3 ${DTF_TASK_SCRIPT} && [ -f 'my träin.py' ]"
    )
    files = ("--files", "däta file.txt", "--files", "a dir, with")
    paths = ("-i", "in put/ü", "-o", "/out put/✓ $HOME 'x'", "-s", "my träin.py")
    job = ytf.submit("worker:1", command, *files, *paths, "-n", 'näme "of" it\'s')
    seen = dump(ytf, "worker:0")
    ytf.open_gate()
    status = job.end("SUCCEEDED")
    assert status.name == 'näme "of" it\'s'
    words = (ytf.gate / "words").read_text()
    assert words == "<a  b>\n<c\"d>\n<e'f>\n<ünï ✓>\n<$HOME>\n<t\tb>\nzwölfinside"
    assert seen["DTF_INPUT_PATH"] == str(ytf.work / "in put/ü")
    assert seen["DTF_OUTPUT_PATH"] == "/out put/✓ $HOME 'x'"
    assert {"my träin.py", "däta file.txt", "a dir, with"} <= set(seen["here"])
    assert seen["DTF_TASK_SCRIPT"] in seen["here"]
    assert " " in seen["cwd"]


def test_a_second_process_may_bind_the_tasks_port(ytf: Ytf) -> None:
    bind = "import os, socket; socket.create_server(('', int(os.environ['YTF_TASK_PORT'])))"
    ytf.submit("worker:2", f'python3 -c "{bind}"').end("SUCCEEDED")


def test_exit_codes_tell_acceptance_and_outcome(ytf: Ytf) -> None:
    words = ("ytf-submit", "--framework", "none", "-r", "worker:1")
    accepted = ytf.run(*words, "exit 3")
    waited = ytf.run(*words, "--wait", "exit 3", code=1)
    assert "exited with code 3" in waited.stderr
    for done in (accepted, waited):
        assert done.stdout.strip().startswith("local_")
        assert done.stdout.count("\n") == 1
    assert accepted.stdout != waited.stdout
    record = ytf.home / "history" / accepted.stdout.strip() / "record.json"
    eventually(record.exists)


def test_wrong_usage_exits_2_and_leaves_nothing(ytf: Ytf) -> None:
    tensorboard = ytf.run("ytf-submit", "-r", "worker:1", "-t", "true", code=2)
    assert "-o" in tensorboard.stderr
    assert tensorboard.stdout == ""
    many_words = ytf.run("ytf-submit", "-r", "worker:1", "python", "train.py", code=2)
    assert "quote" in many_words.stderr
    missing = ytf.run("ytf-submit", "-r", "worker:1", "-s", "nôt there.py", "true", code=2)
    assert "nôt there.py" in missing.stderr
    assert not list(ytf.home.glob("*/local_*"))


def test_an_environment_from_a_file_is_made_once_and_used_in_its_place(ytf: Ytf) -> None:
    venv = Venv(ytf.work / "packed")
    venv.install("tool", {"tool.py": b"ANSWER = 42\n", "bin/tool": venv.script("print('found')")})
    with tarfile.open(ytf.work / "my env.tar.gz", "w:gz") as archive:
        archive.add(venv.root, "env")
    words = ("ytf-submit", "--framework", "none", "-r", "worker:1", "--env", "my env.tar.gz")
    told = ytf.run(*words, "--dryrun", "tool")
    environments = ytf.home / "environments"
    assert f"env: {environments}/archive-" in told.stdout
    assert not list(environments.glob("[!.]*"))
    first = ytf.run(*words, "--wait", "tool")
    assert "making an environment for my env.tar.gz, once" in first.stderr
    assert ytf.run("ytf", "logs", first.stdout.strip()).stdout == "worker:0 | found\n"

    program = "import ytf\nprint(ytf.run(lambda: __import__('tool').ANSWER, env='my env.tar.gz'))"
    assert ytf.run("python", "-", stdin=program).stdout == "[42]\n"
    assert len(list(environments.glob("[!.]*"))) == 1


def test_a_dry_run_starts_nothing(ytf: Ytf) -> None:
    (ytf.work / "train.py").write_text("")
    words = ("ytf-submit", "-r", "ps:1,worker:2", "-m", "worker[1]:2 GiB", "-s", "train.py")
    told = ytf.run(*words, "--dryrun", "python train.py")
    assert "worker:1: 1 vcore(s), 2 GiB" in told.stdout
    assert str(ytf.work / "train.py") in told.stdout
    plan = json.loads(ytf.run(*words, "--dryrun", "--json", "python train.py").stdout)
    assert plan["backend"] == "local"
    assert plan["spec"]["groups"]["worker"]["count"] == 2
    assert plan["uploads"] == [{"source": str(ytf.work / "train.py"), "name": "train.py"}]
    assert not list(ytf.home.glob("*/local_*"))
    assert not ytf.processes()


def test_a_home_below_a_file_is_refused(ytf: Ytf, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ytf.env["YTF_HOME"] = str(tmp_path / "file" / "home")
    done = ytf.run("ytf-submit", "-r", "worker:1", "true", code=2)
    assert str(tmp_path / "file" / "home") in done.stderr
    assert "YTF_HOME" in done.stderr
    assert "Traceback" not in done.stderr
