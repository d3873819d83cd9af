"""A simulated cluster around the job machine, for tests: it executes commands and makes events.

All that a real backend and real starters can do is an *action* with a name. A
test, or hypothesis, picks the next one. Reports may come late and twice, and a
master may restart at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from tests.machine.invariants import check
from ytf.machine import commands as c
from ytf.machine import events as e
from ytf.machine.containers import CLIENT_CONTAINER, CLIENT_TASK
from ytf.machine.machine import Machine
from ytf.machine.state import MachineState
from ytf.specs.ids import ContainerId, NodeId, RequestId, TaskId, group_of, index_of
from ytf.specs.job import CLIENT, TENSORBOARD, JobSpec
from ytf.specs.status import ClusterSpec, FinalStatus

NODES = [NodeId(f"node{i}") for i in range(3)]


@dataclass
class Starter:
    """A starter and its program, in a container."""

    container: ContainerId
    task: TaskId
    node: NodeId
    attempt: int
    generation: int
    port: int | None = None
    registered: bool = False
    program: str = "none"  # none, running, ended
    told_to_stop: bool = False
    unanswered: bool = False
    """It has sent a report that has not arrived yet, and sends nothing else until then."""


@dataclass
class World:
    """The cluster of one job. ``actions`` lists what can happen now."""

    spec: JobSpec
    hostile: bool = True
    now: float = 1000.0
    open_requests: dict[RequestId, c.RequestContainer] = field(default_factory=dict)
    starters: dict[ContainerId, Starter] = field(default_factory=dict)
    published: ClusterSpec | None = None
    finished: c.FinishJob | None = None
    log: list[tuple[e.AnyEvent, float]] = field(default_factory=list)
    ports: int = 2000
    made: int = 0
    masters: int = 1
    killed: bool = False
    last_exit: dict[TaskId, int] = field(default_factory=dict)
    troubles: int = 0
    slow: bool = False
    mail: list[tuple[Starter, e.AnyEvent]] = field(default_factory=list)
    """Reports that have not arrived yet."""

    def __post_init__(self) -> None:
        self.machine = Machine(self.spec)
        self.feed(e.MasterStarted(attempt=1))
        if self.spec.client:
            self.starters[CLIENT_CONTAINER] = Starter(
                CLIENT_CONTAINER, CLIENT_TASK, NodeId("client"), 1, 1
            )

    # ---- the machine's side

    def feed(self, event: e.AnyEvent) -> None:
        self.log.append((event, self.now))
        out = self.machine.handle(event, self.now)
        check(self.machine)
        for command in out:
            self.obey(command)

    def obey(self, command: c.AnyCommand) -> None:
        match command:
            case c.RequestContainer():
                self.open_requests[command.request] = command
            case c.CancelRequest():
                self.open_requests.pop(command.request, None)
            case c.LaunchStarter():
                assert command.container in self.starters
                starter = self.starters[command.container]
                starter.task, starter.attempt = command.task, command.attempt
                starter.generation = command.generation
            case c.ReleaseContainer():
                if command.container in self.starters:
                    self.starters[command.container].told_to_stop = True
            case c.PublishClusterSpec():
                assert self.published is None or command.spec.revision >= self.published.revision
                self.published = command.spec
            case c.RunAttempt():
                starter_ = self.starters.get(command.container)
                if starter_ is not None and command.attempt > starter_.attempt:
                    starter_.attempt, starter_.generation = command.attempt, command.generation
                    starter_.registered, starter_.program = False, "none"
            case c.StopTask():
                if command.container in self.starters:
                    self.starters[command.container].told_to_stop = True
            case c.FinishJob():
                assert self.finished is None or self.finished == command
                self.finished = command

    # ---- the world's side

    def actions(self) -> dict[str, Callable[[], None]]:
        """Everything that can happen next, by a stable name."""
        found: dict[str, Callable[[], None]] = {}
        for request in self.open_requests:
            for node in NODES if self.hostile else NODES[:1]:
                found[f"allocate {request} {node}"] = partial(self.allocate, request, node)
        for starter in self.starters.values():
            name = f"{starter.container}"
            if starter.unanswered:
                continue
            if starter.told_to_stop:
                found[f"stop {name}"] = partial(self.complete, starter, e.Cause.RELEASED)
                continue
            if not starter.registered:
                found[f"register {name}"] = partial(self.register, starter)
            elif starter.program == "none" and self.may_run(starter):
                found[f"run {name}"] = partial(self.run, starter)
            elif starter.program == "running":
                found[f"exit 0 {name}"] = partial(self.exit, starter, 0)
                if self.hostile:
                    found[f"exit 1 {name}"] = partial(self.exit, starter, 1)
                    found[f"port {name}"] = partial(self.exit, starter, 1, port_lost=True)
            if self.hostile:
                found[f"full {name}"] = partial(self.lose_output, starter)
                found[f"silent {name}"] = partial(self.silent, starter)
                if starter.container != CLIENT_CONTAINER:
                    for cause in e.Cause:
                        found[f"{cause.value} {name}"] = partial(self.complete, starter, cause, 9)
        for number in range(len(self.mail)):
            found[f"deliver {number}"] = partial(self.deliver, number)
        if self.machine.next_deadline() is not None:
            found["deadline"] = self.pass_deadline
        if self.hostile:
            found |= self._hostilities()
        return found

    def _hostilities(self) -> dict[str, Callable[[], None]]:
        found: dict[str, Callable[[], None]] = {
            "kill": self.kill,
            "backend gone": self.backend_gone,
            "master restarts": self.restart_master,
            "post": self.post_late,
            "some turn up": partial(
                self.feed,
                e.ContainersRecovered(
                    containers=tuple(k for k in self.starters if k != CLIENT_CONTAINER)[:1],
                    complete=False,
                ),
            ),
            "idle": partial(self.feed, e.JobBecameIdle(since=self.now - 300)),
            "no longer idle": partial(self.feed, e.JobIdleEnded()),
            "shell": partial(self.feed, e.ShellRequested(task=TaskId("worker:0"), by="ada")),
            "repeat": partial(self.feed, self.log[-1][0]),
            "repeat older": partial(self.feed, self.log[len(self.log) // 2][0]),
        }
        for starter in self.starters.values():
            if starter.container == CLIENT_CONTAINER or starter.task == "?:0":
                continue
            if not starter.registered and not starter.told_to_stop:
                found[f"unlaunched {starter.container}"] = partial(self.unlaunched, starter)
        for node in NODES:
            found[f"lose {node}"] = partial(self.lose, node)
        for request in list(self.open_requests)[:1]:
            found[f"refuse {request}"] = partial(self.refuse, request)
        return found

    def may_run(self, starter: Starter) -> bool:
        group, index = group_of(starter.task), index_of(starter.task)
        if group == TENSORBOARD:
            return True
        spec = self.published
        if spec is None or spec.generation != starter.generation:
            return False
        if group == CLIENT:
            return True
        hosts = spec.members.get(group, ())
        return index < len(hosts) and hosts[index] == f"{starter.node}:{starter.port}"

    def allocate(self, request: RequestId, node: NodeId) -> None:
        del self.open_requests[request]
        self.made += 1
        container = ContainerId(f"c{self.made}")
        self.starters[container] = Starter(container, TaskId("?:0"), node, 0, 0)
        self.feed(e.ContainerAllocated(request=request, container=container, node=node))

    def refuse(self, request: RequestId) -> None:
        del self.open_requests[request]
        self.troubles += 1
        self.feed(e.RequestRefused(request=request, reason="too big"))

    def unlaunched(self, s: Starter) -> None:
        del self.starters[s.container]
        self.troubles += 1
        self.feed(e.LaunchFailed(container=s.container, reason="no such node"))

    def post_late(self) -> None:
        """From now on the next report takes a while."""
        self.slow = True

    def tell(self, s: Starter, event: e.AnyEvent) -> None:
        """A starter reports; it obeys what it is answered."""
        if self.slow:
            self.slow = False
            s.unanswered = True
            self.mail.append((s, event))
            return
        self.feed(event)
        self.answer(s)

    def deliver(self, number: int) -> None:
        """A report arrives, perhaps after others, perhaps after its sender's death."""
        s, event = self.mail.pop(number)
        s.unanswered = False
        self.feed(event)
        if s.container in self.starters:
            self.answer(s)

    def register(self, s: Starter) -> None:
        self.ports += 1
        s.port = None if s.container == CLIENT_CONTAINER else self.ports
        s.registered = True
        self.tell(
            s,
            e.StarterRegistered(
                task=s.task,
                attempt=s.attempt,
                container=s.container,
                host=s.node,
                port=s.port,
                control="x:1",
            ),
        )

    def run(self, s: Starter) -> None:
        s.program = "running"
        self.tell(s, e.TaskStarted(task=s.task, attempt=s.attempt, container=s.container))

    def exit(self, s: Starter, code: int, port_lost: bool = False) -> None:
        s.program = "ended"
        self.last_exit[s.task] = code
        self.troubles += code != 0
        self.tell(
            s,
            e.TaskExited(
                task=s.task,
                attempt=s.attempt,
                container=s.container,
                exit_code=code,
                signal=None,
                ended_at=self.now - 1,
                port_lost=port_lost,
            ),
        )

    def answer(self, s: Starter) -> None:
        """What a report is answered with: the order of the moment, which the starter obeys."""
        order = self.machine.order(s.container)
        if order is None:
            s.told_to_stop = True
        else:
            self.obey(order)

    def complete(self, s: Starter, cause: e.Cause, signal: int | None = None) -> None:
        del self.starters[s.container]
        if s.container == CLIENT_CONTAINER:
            return
        if signal is not None:
            self.troubles += 1
        self.feed(e.ContainerCompleted(container=s.container, cause=cause, signal=signal))

    def lose_output(self, s: Starter) -> None:
        self.feed(e.OutputLost(task=s.task, attempt=s.attempt, container=s.container, at=self.now))

    def silent(self, s: Starter) -> None:
        self.troubles += 1
        if s.container == CLIENT_CONTAINER:
            del self.starters[s.container]
        self.feed(e.StarterLost(container=s.container, silent_s=31))

    def lose(self, node: NodeId) -> None:
        for s in [s for s in self.starters.values() if s.node == node]:
            del self.starters[s.container]
        self.troubles += 1
        self.feed(e.NodeLost(node=node))

    def kill(self) -> None:
        self.killed = True
        self.feed(e.KillRequested(by="alice"))

    def backend_gone(self) -> None:
        self.troubles += 1
        self.starters.clear()
        self.feed(e.BackendGone(reason="the node died"))

    def pass_deadline(self) -> None:
        deadline = self.machine.next_deadline()
        assert deadline is not None
        name, at = deadline
        self.now = max(self.now, at)
        if name in ("start", "allocation", "rendezvous", "job"):
            self.troubles += 1
        self.feed(e.DeadlinePassed(deadline=name))

    def restart_master(self, complete: bool = True, lost: tuple[ContainerId, ...] = ()) -> None:
        """A new master replays the journal; the world is as it was.

        The backend has no word of the ``lost`` containers, and tells whether that is all.
        """
        replayed = Machine(self.spec)
        for event, at in self.log:
            replayed.handle(event, at)
        assert replayed.state == self.machine.state
        encoded = msgspec.json.encode(replayed.state)
        restored = Machine(self.spec, msgspec.json.decode(encoded, type=MachineState))
        assert restored.state == self.machine.state
        self.machine = restored
        self.masters += 1
        self.open_requests.clear()
        self.published = None
        self.feed(e.MasterStarted(attempt=self.masters))
        alive = tuple(k for k in self.starters if k != CLIENT_CONTAINER and k not in lost)
        self.feed(e.ContainersRecovered(containers=alive, complete=complete))
        for command in self.machine.commands_to_repeat():
            self.obey(command)

    # ---- the end

    def drive_home(self, limit: int = 2000) -> c.FinishJob:
        """Let only good things happen from now on: the job must come to its end."""
        self.hostile = False
        for _ in range(limit):
            if self.finished is not None:
                return self.finished
            possible = self.actions()
            names = [n for n in possible if n != "deadline"] or list(possible)
            assert names, "nothing can happen any more, and the job is not over"
            possible[names[0]]()
        raise AssertionError(f"the job has not ended: {self.machine.state}")

    def judge(self) -> None:
        """The final status must be the true one."""
        assert self.finished is not None
        status = self.finished.status
        if status is FinalStatus.KILLED:
            assert self.killed
        if status is FinalStatus.FAILED:
            assert self.troubles, self.finished.diagnostics
        if status is FinalStatus.SUCCEEDED:
            tracked, deciding = self.spec.tracked_groups(), self.spec.deciding_groups()
            tasks = [t for t in self.machine.state.tasks.values() if not t.dropped]
            chiefs = [self.last_exit.get(t.id) for t in tasks if group_of(t.id) in deciding]
            if chiefs and not any(code != 0 for code in chiefs):
                return  # then it does not matter how the others ended
            for task in tasks:
                group = group_of(task.id)
                if group in tracked:
                    ignored = self.spec.policy(group).value == "ignore"
                    assert ignored or self.last_exit.get(task.id) == 0, task
