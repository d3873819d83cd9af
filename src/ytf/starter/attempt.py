"""Runs one attempt at a task: a list of hooks, from the port to the report of the exit.

::

    prepare → take_port → register → assemble → confirm_registration → find_libhdfs
    → take_gpus → stage_in → restore_checkpoints → wait_for_peers → make_environment → run
    → finish_sync → stage_out → report_exit

Each hook runs in the starter's main thread and may wait; an order that comes
meanwhile ends the attempt from inside the wait. After the last hook the
starter stays, subscribed to the registry, until it is told to stop or to run
another attempt.
"""

from __future__ import annotations

import os

from ytf.frameworks.api import TaskContext
from ytf.frameworks.ranks import hostfile, ranks_of
from ytf.log import log
from ytf.starter import threads
from ytf.starter.config import CONTAINER_DIR
from ytf.starter.desired_state import (
    CANNOT_BEGIN,
    ProgramChanged,
    ReceivedClusterSpec,
    Shutdown,
    ShutdownError,
)
from ytf.starter.hdfs_variables import conf_variables, find_tensorflow_io, plugin_variables
from ytf.starter.program_env import (
    HIDDEN_GPUS,
    activate,
    container_environment,
    process_environments,
    program_environment,
    replace_file,
    with_variables,
)
from ytf.starter.program_logs import ProgramLogs
from ytf.starter.runner import CANNOT_RUN, NotReadyError, ProgramExit
from ytf.wire.address import join_address
from ytf.wire.bind import interface_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

    from ytf.starter.checkpoint_sync import SyncHelper
    from ytf.starter.runner import RunningProgram
    from ytf.starter.starter import Starter


class TaskAttempt:
    """What the hooks of one attempt hand on to each other.

    ``env`` are the variables of the program. If it is several processes,
    ``processes`` are the further ones of each.
    """

    __slots__ = (
        "env", "exit", "generation", "number", "port", "processes", "spec", "sync", "usage"
    )  # fmt: skip

    def __init__(self, number: int, generation: int) -> None:
        self.number = number
        self.generation = generation
        self.port: Optional[int] = None
        self.spec: Optional[ReceivedClusterSpec] = None
        self.env: Dict[bytes, bytes] = {}
        self.processes: List[Dict[bytes, bytes]] = []
        self.exit: Optional[ProgramExit] = None
        self.sync: Optional[SyncHelper] = None
        self.usage: Optional[Dict[str, Any]] = None

    def usage_of(self, usage: Dict[str, Any], metrics: Dict[str, float]) -> Dict[str, Any]:
        """Return what a program of this attempt uses and reports, for the master."""
        return dict(usage, attempt=self.number, metrics=metrics)


def prepare(starter: Starter, attempt: TaskAttempt) -> None:
    """Make the node able to run the program; a starter on one that cannot does not register.

    What takes long, such as the pull of an image, is told in the attempt's stderr.
    """
    if starter.runner.is_ready:
        return
    logs = _logs(starter, attempt)
    outcome: List[str] = []

    def work() -> None:
        try:
            starter.runner.prepare(lambda line: _tell(logs, line))
            outcome.append("")
        except NotReadyError as exc:
            _tell(logs, str(exc))
            outcome.append(str(exc))
        starter.inbox.put(ProgramChanged())

    threads.start("prepare", work, starter.inbox)
    starter.wait_until(lambda: bool(outcome))
    if outcome[0]:
        raise ShutdownError(Shutdown(CANNOT_BEGIN, outcome[0]))
    threads.start("leftovers", starter.runner.remove_orphans, starter.inbox)


def _logs(starter: Starter, attempt: TaskAttempt) -> Optional[ProgramLogs]:
    config = starter.config
    if config.log_dir is None:
        return None
    return ProgramLogs(config.log_dir, attempt.number, config.log_limit_mb, config.log_prefix)


def _tell(logs: Optional[ProgramLogs], line: str) -> None:
    log(line)
    if logs is None:
        return
    opened: List[int] = []
    try:
        opened = logs.open()
        os.write(opened[1], b"ytf: %s\n" % line.encode("utf-8", "replace"))
    except OSError as exc:
        log("this could not be written to the task's stderr: %s" % exc)
    finally:
        for fd in opened:
            os.close(fd)


def take_port(starter: Starter, attempt: TaskAttempt) -> None:
    """Bind the port that will be registered."""
    try:
        attempt.port = starter.port.take()
    except OSError as exc:
        shutdown = Shutdown(CANNOT_BEGIN, "no port for the task: %s" % exc)
        raise ShutdownError(shutdown) from exc


def register(starter: Starter, attempt: TaskAttempt) -> None:
    """Tell the master where this attempt is reached."""
    starter.registry.register(
        attempt.number, host=starter.host, port=attempt.port, control=starter.control
    )


def assemble(starter: Starter, attempt: TaskAttempt) -> None:
    """Build the environment that the program runs on, while the registration is under way."""
    wanted = starter.config.environment
    if wanted is None or starter.assembled is not None:
        return
    # Only tasks that bring an environment need it.
    from ytf.starter.environment_builder import AssemblyError, assemble

    target = os.path.abspath(os.path.join(CONTAINER_DIR, "environment"))
    try:
        starter.assembled = assemble(wanted.manifest, wanted.layers, target)
    except AssemblyError as exc:
        attempt.exit = ProgramExit(CANNOT_RUN, reason=str(exc))


def confirm_registration(starter: Starter, attempt: TaskAttempt) -> None:
    """Wait until the registration is durable; from then on receive orders and cluster specs."""
    starter.wait_until(lambda: starter.desired.is_registered(attempt.number))
    log(
        "%s registered as attempt %d, port %s" % (starter.config.task, attempt.number, attempt.port)
    )
    starter.registry.subscribe()


def find_libhdfs(starter: Starter, attempt: TaskAttempt) -> None:
    """Find the node's Hadoop and Java for the program, once for all attempts in this container."""
    if attempt.exit is not None or not starter.config.libhdfs or starter.libhdfs is not None:
        return
    # Only tasks that ask for it need it.
    from ytf.starter.libhdfs import LibhdfsError, LibhdfsSearch

    config = starter.config
    inherited = _activated(starter)
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in inherited.items()}
    environ.update(conf_variables(inherited, config.hadoop_conf))
    # In an image's variables there is no PATH, and it is the node's Hadoop that is looked for.
    environ.setdefault("PATH", os.environ.get("PATH", os.defpath))
    found: Dict[str, str] = {}
    ended: List[str] = []

    def work(search: LibhdfsSearch) -> None:
        try:
            found.update(search.finish())
            ended.append("")
        except LibhdfsError as exc:
            ended.append(str(exc))
        starter.inbox.put(ProgramChanged())

    try:
        search = LibhdfsSearch(environ, in_image=config.docker is not None)
    except LibhdfsError as exc:
        ended.append(str(exc))
    else:
        threads.start("libhdfs", lambda: work(search), starter.inbox)
        try:
            starter.wait_until(lambda: bool(ended))
        finally:
            search.kill()
    if ended[0]:
        text = "%s cannot provide libhdfs: %s" % (starter.host, ended[0])
        attempt.exit = ProgramExit(CANNOT_RUN, reason=text)
    else:
        starter.libhdfs = found


def take_gpus(starter: Starter, attempt: TaskAttempt) -> None:
    """Lock the GPUs that the program is to see, once for all attempts in this container."""
    config = starter.config
    if attempt.exit is not None or not config.gpus or starter.gpus is not None:
        return
    # Only tasks that have GPUs need it.
    from ytf.starter.gpus import GpuError, take_gpus

    inherited = _inherited(starter)
    visible = inherited.get(b"CUDA_VISIBLE_DEVICES")
    try:
        starter.gpus = take_gpus(
            config.gpus,
            config.gpu_locks,
            path=os.fsdecode(inherited.get(b"PATH", b"")),
            visible=None if visible is None else os.fsdecode(visible),
        )
    except GpuError as exc:
        attempt.exit = ProgramExit(CANNOT_RUN, reason="no GPUs on %s: %s" % (starter.host, exc))


def stage_in(starter: Starter, attempt: TaskAttempt) -> None:
    """Copy the files that the program needs into its working directory.

    The task has registered: its progress can be seen, and nobody waits for its address.
    """
    config = starter.config
    if not config.stage_in and not config.stage_out:
        return
    # Only tasks that stage something need it.
    from ytf.starter import staging

    logs = _logs(starter, attempt)
    staging.stage_in(starter, attempt, lambda line: _tell(logs, line))


def restore_checkpoints(starter: Starter, attempt: TaskAttempt) -> None:
    """Restore the directory that is kept in sync, and keep it in sync from then on."""
    if not starter.config.checkpoint_sync or attempt.exit is not None:
        return
    # Only tasks that sync a directory need it.
    from ytf.starter.checkpoint_sync import SyncHelper

    logs = _logs(starter, attempt)
    sync = SyncHelper(starter, attempt.number, lambda line: _tell(logs, line))
    sync.begin()
    if sync.failure:
        text = "the checkpoints could not be restored: %s" % sync.failure
        _tell(logs, text)
        attempt.exit = ProgramExit(CANNOT_RUN, reason=text)
    else:
        attempt.sync = sync


def wait_for_peers(starter: Starter, attempt: TaskAttempt) -> None:
    """Wait for a cluster spec of this generation that has this task in its place."""
    if attempt.exit is not None:
        return
    config = starter.config
    address = None if attempt.port is None else join_address(starter.host, attempt.port)

    def ready() -> bool:
        spec = starter.desired.spec
        return spec is not None and spec.fits(
            attempt.generation, config.group, config.index, address
        )

    if config.wait_for_peers:
        starter.wait_until(ready)
    if ready():
        attempt.spec = starter.desired.spec
    else:
        attempt.spec = ReceivedClusterSpec(attempt.generation, 0, {})


def make_environment(starter: Starter, attempt: TaskAttempt) -> None:
    """Make the program's variables from the cluster spec, and write its files."""
    spec = attempt.spec
    if spec is None:
        return
    config = starter.config
    task = TaskContext(
        job=config.job,
        container=config.container,
        group=config.group,
        index=config.index,
        attempt=attempt.number,
        generation=attempt.generation,
        host=starter.host,
        port=attempt.port,
        port_is_held=starter.port.is_held,
        processes=config.processes,
        ranked=config.ranked,
        gpus=config.gpus,
        hostfile=starter.hostfile,
        interface=interface_of(starter.address) if config.framework.interface_variables else None,
    )
    inherited = _activated(starter)
    if config.hide_gpus:
        inherited = with_variables(inherited, HIDDEN_GPUS)
    elif starter.gpus is not None:
        inherited = with_variables(inherited, starter.runner.gpu_variables(starter.gpus))
    inherited = with_variables(inherited, _hdfs_variables(starter, inherited))
    starter.metrics.remove()
    files = {
        "YTF_CLUSTER_SPEC_FILE": starter.spec_file.path,
        "YTF_METRICS_FILE": starter.metrics.path,
    }
    attempt.env = program_environment(inherited, config.framework, task, spec.members, files)
    processes = process_environments(config.framework, task, spec.members)
    if len(processes) == 1:
        attempt.env.update(processes[0])
    else:
        attempt.processes = processes
    try:
        starter.spec_file.write(spec)
        if task.port is not None:
            replace_file(task.hostfile, hostfile(ranks_of(task, spec.members)))
    except OSError as exc:
        text = "the cluster spec could not be written to the working directory: %s" % exc
        attempt.exit = ProgramExit(CANNOT_RUN, reason=text)


def _activated(starter: Starter) -> Mapping[bytes, bytes]:
    """Return what the program inherits, with its environment first on the PATH."""
    inherited = starter.runner.inherited_variables(_inherited(starter))
    return inherited if starter.assembled is None else activate(starter.assembled, inherited)


def _hdfs_variables(starter: Starter, inherited: Mapping[bytes, bytes]) -> Dict[str, str]:
    config = starter.config
    made = conf_variables(inherited, config.hadoop_conf)
    made.update(starter.libhdfs or {})
    plugin = plugin_variables(inherited, config.hdfs_plugin)
    if plugin and config.docker is None:
        # What an image has installed cannot be seen from here.
        packages = find_tensorflow_io(os.fsdecode(inherited.get(b"PATH", b"")))
        if packages is not None:
            log("%s has tensorflow-io: the plugin for hdfs:// is left out" % packages)
            return made
    return {**made, **plugin}


def _inherited(starter: Starter) -> Dict[bytes, bytes]:
    inherited = starter.config.inherited
    return container_environment() if inherited is None else inherited


def run(starter: Starter, attempt: TaskAttempt) -> None:
    """Run the program to its end."""
    starter.check()
    if attempt.exit is not None:
        return
    config = starter.config
    starter.port.before_program()
    starter.logs = _logs(starter, attempt)
    try:
        program = starter.runner.start(
            config.program,
            attempt.env,
            starter.logs,
            starter.inbox,
            attempt.processes,
            starter.gpus,
        )
    except (OSError, NotReadyError) as exc:
        attempt.exit = ProgramExit(CANNOT_RUN, reason="the program could not be started: %s" % exc)
        return
    starter.program = program
    starter.wait_until(lambda: program.pid is not None or program.exit is not None)
    if program.pid is not None:
        log("the program of attempt %d runs as process %d" % (attempt.number, program.pid))
        starter.registry.report_started(attempt.number)
        starter.wait_until(lambda: _has_ended(attempt, program))
    attempt.exit = program.exit
    usage = program.usage()
    if usage is not None:
        attempt.usage = attempt.usage_of(usage, starter.metrics.read())
    starter.program = None


def _has_ended(attempt: TaskAttempt, program: RunningProgram) -> bool:
    if attempt.sync is not None:
        attempt.sync.keep_running()
    return program.exit is not None


def finish_sync(starter: Starter, attempt: TaskAttempt) -> None:
    """Sync the checkpoint directory for the last time; if that fails, so does the attempt."""
    sync, end = attempt.sync, attempt.exit
    if sync is None or end is None:
        return
    sync.finish(end, starter.config.checkpoint_sync["final_s"], was_asked=False)
    starter.wait_until(sync.is_finished)
    attempt.exit = sync.exit(end)
    attempt.sync = None


def stage_out(starter: Starter, attempt: TaskAttempt) -> None:
    """Copy what the program has left to where it is to stay."""
    if not starter.config.stage_out:
        return
    from ytf.starter import staging

    logs = _logs(starter, attempt)
    staging.stage_out(starter, attempt, lambda line: _tell(logs, line))


def report_exit(starter: Starter, attempt: TaskAttempt) -> None:
    """Report to the master how the program ended."""
    end = attempt.exit
    assert end is not None
    tail, stream = "", "stderr"
    if starter.logs is not None and not end.reason:
        tail, stream = starter.logs.failure_tail()
    # Every process of the program is dead: if another has the port now, it is a stranger.
    port_lost = end.exit_code != 0 and starter.port.is_lost()
    log(
        "the program of attempt %d ended: exit code %s, signal %s%s"
        % (attempt.number, end.exit_code, end.signal, end.reason and ", " + end.reason)
    )
    lost_at = None if starter.logs is None else starter.logs.output_lost_at
    starter.registry.report_exited(
        attempt.number,
        end,
        tail=tail,
        tail_stream=stream,
        port_lost=port_lost,
        output_lost_at=lost_at,
        usage=attempt.usage,
    )


HOOKS: Tuple[Callable[[Starter, TaskAttempt], None], ...] = (
    prepare,
    take_port,
    register,
    assemble,
    confirm_registration,
    find_libhdfs,
    take_gpus,
    stage_in,
    restore_checkpoints,
    wait_for_peers,
    make_environment,
    run,
    finish_sync,
    stage_out,
    report_exit,
)
