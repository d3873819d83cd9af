"""One try at running the task: a list of hooks, from the port to the report.

::

    take_port → register → assemble → wait_for_peers → make_environment → run → report_exit

Each hook runs in the main thread and may wait; an order that comes meanwhile
ends the attempt from inside the wait. After the last hook the starter stays,
polling, until it is told to stop or to be another attempt.
"""

from __future__ import annotations

import os

from ytf.starter.address import join
from ytf.starter.config import ROOM
from ytf.starter.environment import Identity, activate, container_environment, environment
from ytf.starter.keeper import Command
from ytf.starter.log import say
from ytf.starter.logs import Logs
from ytf.starter.process import CANNOT_RUN, Exit, Program, shell_command
from ytf.starter.report import EXITED, REGISTER, STARTED
from ytf.starter.situation import CANNOT_BEGIN, ClusterSpec, DismissedError, Ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Optional, Tuple

    from ytf.starter.starter import Starter


class Attempt:
    """What the hooks of one attempt hand on to each other."""

    __slots__ = ("env", "exit", "generation", "number", "port", "spec")

    def __init__(self, number: int, generation: int) -> None:
        self.number = number
        self.generation = generation
        self.port: Optional[int] = None
        self.spec: Optional[ClusterSpec] = None
        self.env: Dict[bytes, bytes] = {}
        self.exit: Optional[Exit] = None


def take_port(starter: Starter, attempt: Attempt) -> None:
    """Have the port that will be reported."""
    try:
        attempt.port = starter.port.take()
    except OSError as exc:
        end = Ended(CANNOT_BEGIN, "no port for the task: %s" % exc)
        raise DismissedError(end) from exc


def register(starter: Starter, attempt: Attempt) -> None:
    """Be known to the master for good, and from then on hear from it."""
    starter.reporter.send(
        REGISTER,
        attempt.number,
        host=starter.host,
        port=attempt.port,
        control=starter.control,
    )
    starter.wait_until(lambda: starter.situation.is_acknowledged(REGISTER, attempt.number))
    say(
        "%s registered as attempt %d, port %s" % (starter.config.task, attempt.number, attempt.port)
    )
    starter.start_polling()


def assemble(starter: Starter, attempt: Attempt) -> None:
    """Put together what the program is to run on, while others are still on their way."""
    wanted = starter.config.environment
    if wanted is None or starter.assembled is not None:
        return
    from ytf.starter import assembly  # only tasks that bring an environment need it

    place = os.path.abspath(os.path.join(ROOM, "environment"))
    try:
        starter.assembled = assembly.assemble(wanted.manifest, wanted.layers, place)
    except assembly.AssemblyError as exc:
        attempt.exit = Exit(CANNOT_RUN, reason=str(exc))


def wait_for_peers(starter: Starter, attempt: Attempt) -> None:
    """Have a cluster spec that others have too, with this task in its place."""
    if attempt.exit is not None:
        return
    config = starter.config
    address = None if attempt.port is None else join(starter.host, attempt.port)

    def ready() -> bool:
        spec = starter.situation.spec
        return spec is not None and spec.fits(
            attempt.generation, config.group, config.index, address
        )

    if config.rendezvous:
        starter.wait_until(ready)
    if ready():
        attempt.spec = starter.situation.spec
    else:
        attempt.spec = ClusterSpec(attempt.generation, 0, {})


def make_environment(starter: Starter, attempt: Attempt) -> None:
    """Put the cluster spec where the program finds it: in variables and in a file."""
    spec = attempt.spec
    if spec is None:
        return
    identity = Identity(
        starter.config,
        attempt=attempt.number,
        generation=attempt.generation,
        host=starter.host,
        port=attempt.port,
        port_is_held=starter.port.is_held,
        spec_file=starter.spec_file.path,
    )
    inherited = starter.config.inherited
    if inherited is None:
        inherited = container_environment()
    if starter.assembled is not None:
        inherited = activate(starter.assembled, inherited)
    attempt.env = environment(inherited, identity, spec.members)
    try:
        starter.spec_file.write(spec)
    except OSError as exc:
        text = "the cluster spec could not be written to the working directory: %s" % exc
        attempt.exit = Exit(CANNOT_RUN, reason=text)


def run(starter: Starter, attempt: Attempt) -> None:
    """Run the program to its end."""
    starter.check()
    if attempt.exit is not None:
        return
    starter.port.before_program()
    try:
        command, starter.logs = _command(starter, attempt)
        program = starter.program = Program(command, starter.logs, starter.inbox)
    except OSError as exc:
        attempt.exit = Exit(CANNOT_RUN, reason="the program could not be started: %s" % exc)
        return
    starter.wait_until(lambda: program.pid is not None or program.exit is not None)
    if program.pid is not None:
        say("the program of attempt %d runs as process %d" % (attempt.number, program.pid))
        starter.reporter.send(STARTED, attempt.number)
        starter.wait_until(lambda: program.exit is not None)
    attempt.exit = program.exit
    starter.program = None


def _command(starter: Starter, attempt: Attempt) -> Tuple[Command, Optional[Logs]]:
    config = starter.config
    argv = shell_command(config.program, attempt.env)
    if config.log_dir is None:
        return Command(argv, attempt.env, None), None
    logs = Logs(config.log_dir, attempt.number, config.log_limit_mb, config.log_prefix)
    return Command(argv, attempt.env, logs.open()), logs


def report_exit(starter: Starter, attempt: Attempt) -> None:
    """Tell the master how the program ended."""
    end = attempt.exit
    assert end is not None
    tail = ""
    if starter.logs is not None and not end.reason:
        tail = starter.logs.tail()
    # Every process of the program is dead: whoever has the port now is a stranger.
    port_taken = end.exit_code != 0 and starter.port.is_taken()
    say(
        "the program of attempt %d ended: exit code %s, signal %s%s"
        % (attempt.number, end.exit_code, end.signal, end.reason and ", " + end.reason)
    )
    starter.reporter.send(
        EXITED,
        attempt.number,
        exit_code=end.exit_code,
        signal=end.signal,
        ended_at=end.ended_at,
        tail=tail,
        reason=end.reason,
        port_taken=port_taken,
    )


HOOKS: Tuple[Callable[[Starter, Attempt], None], ...] = (
    take_port,
    register,
    assemble,
    wait_for_peers,
    make_environment,
    run,
    report_exit,
)
