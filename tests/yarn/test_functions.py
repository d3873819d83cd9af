"""Functions as jobs on YARN, in the environment of the process that calls them."""

from __future__ import annotations

from tests.yarn.driver import Yarn

RUN = """
import os, socket, sys, ytf
import beside
data = bytes(9_000_000)
class WrongError(Exception):
    pass
def task(fails=False):
    if fails and os.environ["DTF_TASK_INDEX"] == "1":
        raise WrongError(beside.NAME, 7)
    if fails:
        __import__("time").sleep(600)
    import msgspec  # of the environment that is shipped
    return os.environ["DTF_TASK_INDEX"], data * 2, sys.prefix.split("/")[-1], beside.NAME
first, second = ytf.run(task, 2, memory=300, backend="yarn")
print(first[0], second[0], first[1] == second[1] == data * 2, first[2:])
try:
    ytf.run(task, 2, kwargs={"fails": True}, memory=300, backend="yarn")
except ytf.RunFailed as error:
    print(error.task, type(error.__cause__) is WrongError, error.__cause__.args, bool(error.node))
print(ytf.job("@last").id)
"""
OTHER = "import ytf; print(ytf.job({!r}).results())"


def test_values_and_exceptions_come_back_through_hdfs(yarn: Yarn) -> None:
    (yarn.work / "beside.py").write_text("NAME = 'beside'\n")
    (yarn.work / "main.py").write_text(RUN)
    done = yarn.run("python", "main.py", timeout_s=250)
    *lines, job = done.stdout.splitlines()
    assert lines == [
        "0 1 True ('environment', 'beside')",
        "worker:1 True ('beside', 7) True",
    ]

    results = f"{yarn.root}/history/{job}/results"
    assert yarn.files.stat(results).mode == 0o700
    assert {each.name for each in yarn.files.list(f"{results}/worker-1")} >= {"0.json", "0.error"}
    stranger = yarn.as_user("mallory").run("python", "-c", OTHER.format(job), code=1)
    assert "only" in stranger.stderr
    assert "can load its results, as they are pickles" in stranger.stderr

    # What others can have written is not loaded.
    yarn.files.chmod(results, 0o777)
    refused = yarn.run("python", "-c", OTHER.format(job), code=1).stderr
    assert "SettingsError" in refused
    assert "can be written by others" in refused

    yarn.nothing_is_left(job)
    yarn.run("ytf", "rm", job)
    assert job not in {each.name for each in yarn.files.list(f"{yarn.root}/history")}
