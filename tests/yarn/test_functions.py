"""Functions as jobs on YARN, in the environment of the process that calls them."""

from __future__ import annotations

from tests.yarn.driver import Yarn

RUN = """
import os, sys, ytf
import beside
data = bytes(9_000_000)
class WrongError(Exception):
    pass
def task(name):
    if os.environ["DTF_TASK_INDEX"] == "1":
        raise WrongError(name, beside.NAME)
    import msgspec  # of the environment that is shipped
    return data * 2, os.path.basename(sys.prefix), beside.NAME
job = ytf.start(task, 2, args=["n"], memory=300, backend="yarn", on_failure="ignore")
first, second = job.results()
print(first[0] == data * 2, first[1:])
print(second.task, type(second.__cause__) is WrongError, second.__cause__.args, bool(second.node))
print(job.id)
"""
OTHER = "import ytf; print(ytf.job({!r}).results())"


def test_values_and_exceptions_come_back_through_hdfs(yarn: Yarn) -> None:
    (yarn.work / "beside.py").write_text("NAME = 'beside'\n")
    (yarn.work / "main.py").write_text(RUN)
    done = yarn.run("python", "main.py", timeout_s=250)
    *lines, job = done.stdout.splitlines()
    assert lines == [
        "True ('environment', 'beside')",
        "worker:1 True ('n', 'beside') True",
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
