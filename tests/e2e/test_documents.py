"""The code in the documents for users does what they say: commands, job files and Python."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Ytf

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SITE = (
    "<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:9</value></property>"
    "</configuration>"
)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code in a language."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands() -> Iterator[str]:
    """The commands in README's blocks for a shell, continued lines joined."""
    for block in (*blocks(README, "sh"), *blocks(README, "console")):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ").partition("  # ")[0].strip()
            if command.startswith(("ytf", "scripts/", "eval")):
                yield command


def words(command: str) -> list[str]:
    """A command as a shell splits it; a comment ends it."""
    return shlex.split(command, comments=True)


@pytest.fixture
def user(ytf: Ytf, tmp_path: Path) -> Ytf:
    """A user who has the files that the README names, and a configuration of a cluster."""
    for name in ("mnist.py", "mwms.py", "train.py", "config.json"):
        (ytf.work / name).touch()
    (ytf.work / "ddp.py").write_text("import torch\n")
    (ytf.work / "lib").mkdir()
    environments = tmp_path / "envs"
    environments.mkdir()
    (environments / "tf").symlink_to(sys.prefix)
    (tmp_path / "core-site.xml").write_text(SITE)
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    ytf.env["HADOOP_CONF_DIR"] = str(tmp_path)
    ytf.env["HOME"] = str(tmp_path)
    return ytf


def test_all_code_is_of_a_kind_that_is_tried_here() -> None:
    known = {"README.md": {"sh", "console", "yaml", "python"}, "python.md": {"python"}}
    known |= {"api.md": {"text"}}
    # Tried by test_environments_page.py, test_integrations_page.py and test_mlflow.py.
    known |= {"environments.md": {"sh"}, "integrations.md": {"sh", "python"}}
    # Tried by test_run_on_yarn.py.
    known |= {"from-tf-yarn.md": {"diff"}}
    for page in (README, *(ROOT / "docs").glob("*.md")):
        found = set(re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert found <= known.get(page.name, set()), page


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("ytf-submit")])
def test_submissions_in_the_readme_are_accepted(user: Ytf, command: str) -> None:
    given = words(command)[1:]
    at = given.index("--env") + 1 if "--env" in given else 0
    if at:
        given[at] = given[at].replace("~", user.env["HOME"])
    plan = user.run("ytf-submit", "--backend", "yarn", "--dryrun", *given).stdout
    assert "on yarn, queue" in plan
    cluster_only = ("hdfs://", "--node_label", "--placement")
    if not any(word in command for word in cluster_only):
        user.run("ytf-submit", "--backend", "local", "--dryrun", *given)


@pytest.mark.parametrize("command", [c for c in commands() if not c.startswith("ytf-submit")])
def test_other_commands_in_the_readme_exist(user: Ytf, command: str) -> None:
    given = words(command.removeprefix('eval "$(').removesuffix(')"'))
    if given[0].startswith("scripts/"):
        assert (ROOT / given[0]).stat().st_mode & 0o100
        return
    count = 3 if given[1] == "cluster" else 2
    assert f"usage: {' '.join(given[:count])}" in user.run(*given[:count], "--help").stdout


def test_job_files_in_the_readme_are_accepted(user: Ytf) -> None:
    (text,) = blocks(README, "yaml")
    (user.work / "job.yaml").write_text(text, encoding="utf-8")
    plan = user.run("ytf", "submit", "--backend", "local", "--dryrun", "job.yaml").stdout
    assert "worker" in plan


def test_the_python_of_the_readme_runs(ytf: Ytf) -> None:
    (ytf.work / "train.py").write_text("print('trained')\n")
    code = "\n".join(blocks(README, "python")).replace("/shared/", f"{ytf.work}/")
    # The machine has no GPU, and the README leaves the function to its reader.
    code = code.replace(", gpus=1", "").replace("4 GiB", "1 GiB")
    code = code.replace("losses =", "def train():\n    return 0.5\n\n\nlosses =", 1)
    (ytf.work / "readme.py").write_text(code + "\nprint(losses, job.status().state.value)\n")
    assert (
        ytf.run("python", "readme.py", timeout_s=200).stdout == "[0.5, 0.5, 0.5, 0.5] SUCCEEDED\n"
    )


def test_the_code_of_the_page_on_python_runs(ytf: Ytf) -> None:
    page = "\n".join(blocks(ROOT / "docs" / "python.md", "python"))
    (ytf.work / "page.py").write_text(page, encoding="utf-8")
    lines = ytf.run("python", "page.py", timeout_s=200).stdout.splitlines()
    assert lines[0] == "[3, 13]"
    assert lines[1] == "{'step': 5.0, 'loss': 0.2}"
    assert lines[2].startswith("worker:0 on ")
    assert lines[3] == "ValueError('no data for worker:0')"
    assert lines[4] == "Traceback (most recent call last):"
    assert lines[-4].startswith("local_")
    assert lines[-3:] == [
        "[5, 15]",
        "[[1, 11], [2]]",
        "['0', '1']",
    ]


def test_the_reference_of_the_python_api_is_what_the_code_makes() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "api_page"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "run scripts/reference"
