"""Reads a starter's configuration from its environment (docs/protocols.md §3)."""

from __future__ import annotations

import json

from ytf.frameworks.api import HOLD, RELEASE, SERVE_HOROVOD, UnknownFrameworkError, by_name
from ytf.starter.registry import REGISTRIES
from ytf.wire.address import split_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Tuple

    from ytf.frameworks.api import FrameworkProfile
    from ytf.wire.bind import PortRange

NO_PORT = "none"

STARTER_VARIABLE = "YTF_STARTER"
CONTAINER_DIR = ".ytf"
"""The directory for ytf's own files in the working directory of a YARN container."""


class ConfigError(Exception):
    """The starter cannot begin with the configuration that it was given."""


class StarterConfig:
    """Which task a starter runs, and how. Read once, never changed.

    ``log_dir`` None: the program uses the starter's own stdin, stdout and
    stderr and its session, as a client at a terminal does. ``log_prefix`` None:
    each attempt's logs are in a directory of their own. ``inherited`` are the
    variables that the program's are made from; None: those of this process.
    ``environment`` is to be built for the program and put first on its PATH.
    ``gpu_locks`` is the directory for the locks of the task's GPUs, of which it has ``gpus``.
    ``processes`` and ``ranked`` are as in ``TaskContext``.
    ``hadoop_conf`` is the directory of the submitter's Hadoop configuration, ``hdfs_plugin`` that
    of TensorFlow's plugin for HDFS. ``libhdfs``: the program uses Hadoop's own library instead.
    ``docker``: the program runs in a container of the node's engine.
    ``stage_in``, ``stage_out`` and ``checkpoint_sync`` are for ``ytf.storage``, ``tasks`` is how
    many its group has.
    ``zookeeper``: the servers and the path of the job's znode, if the job has that registry.
    """

    __slots__ = (
        "attempt", "checkpoint_sync", "container", "control_ports", "docker", "environment",
        "finder", "framework", "generation", "gpu_locks", "gpus", "grace_s", "group", "hadoop_conf",
        "hdfs_plugin", "heartbeat_timeout_s", "helper", "helper_env", "hide_gpus", "host", "index",
        "inherited", "job", "libhdfs", "log_dir", "log_limit_mb", "log_prefix", "master",
        "master_attempt", "master_file", "master_silence_s", "parent", "port", "processes",
        "program", "ranked", "registry", "secret_file", "stage_in", "stage_out", "task_ports",
        "tasks", "wait_for_peers", "zookeeper",
    )  # fmt: skip

    def __init__(
        self, environ: Mapping[str, str], inherited: Optional[Dict[bytes, bytes]] = None
    ) -> None:
        given = _Given(environ)
        self.inherited = inherited
        self.program = given.variable("DTF_TASK_PROGRAM")
        self.group = given.variable("DTF_TASK_JOB_NAME")
        self.index = given.task_index()
        self.job = given.text("job")
        self.container = given.text("container")
        self.attempt = given.count("attempt")
        self.generation = given.count("generation")
        self.master = given.url("master")
        self.master_attempt = given.maybe_count("master_attempt") or 0
        self.master_file = given.maybe_text("master_file")
        self.finder = given.texts("finder")
        self.helper = given.texts("helper")
        self.helper_env = given.variables("helper_env")
        self.secret_file = given.text("secret_file")
        self.host = given.maybe_text("host")
        self.log_dir = given.maybe_text("log_dir")
        self.log_prefix = given.maybe_text("log_prefix")
        self.port = given.one_of("port", (HOLD, RELEASE, SERVE_HOROVOD, NO_PORT))
        self.task_ports = given.port_range("task_ports")
        self.control_ports = given.port_range("control_ports")
        self.wait_for_peers = given.flag("wait_for_peers", True)
        self.framework = given.framework("framework")
        self.processes = given.maybe_count("processes") or 1
        self.ranked = given.ranked("ranked")
        self.registry = given.one_of("registry", REGISTRIES)
        self.zookeeper = given.zookeeper()
        self.grace_s = given.seconds("grace_s", 10.0)
        self.master_silence_s = given.seconds("master_silence_s", 1800.0)
        self.heartbeat_timeout_s = given.seconds("heartbeat_timeout_s", 30.0)
        self.log_limit_mb = given.seconds("log_limit_mb", 512.0)
        self.parent = given.maybe_count("parent")
        self.environment = given.environment()
        self.gpus = given.maybe_count("gpus") or 0
        self.gpu_locks = given.text("gpu_locks") if self.gpus else ""
        self.hide_gpus = given.flag("hide_gpus", False)
        self.hadoop_conf = given.maybe_text("hadoop_conf")
        self.hdfs_plugin = given.maybe_text("hdfs_plugin")
        self.libhdfs = given.flag("libhdfs", False)
        self.docker = given.docker()
        self.stage_in = given.objects("stage_in")
        self.stage_out = given.objects("stage_out")
        self.tasks = given.maybe_count("tasks") or 1
        self.checkpoint_sync = given.checkpoint_sync()

    @property
    def task(self) -> str:
        """``group:index``."""
        return "%s:%d" % (self.group, self.index)

    def secret(self) -> bytes:
        """Read the job's secret: all bytes of ``secret_file``."""
        try:
            with open(self.secret_file, "rb") as file:
                secret = file.read()
        except OSError as exc:
            raise ConfigError("the job's secret cannot be read: %s" % exc) from exc
        if not secret:
            raise ConfigError("the job's secret, %s, is empty" % self.secret_file)
        return secret


class LayeredEnvironment:
    """An environment to be built from layers: its manifest, and where each layer is unpacked."""

    __slots__ = ("layers", "manifest")

    def __init__(self, manifest: str, layers: List[str]) -> None:
        self.manifest = manifest
        self.layers = layers


class DockerConfig:
    """How a program runs in a container of the node's engine.

    ``engine`` is the client's name or path, None: whichever the node has;
    ``engine_env`` are variables for it. ``variables`` are the names of those
    that are for the program, ``shadowed`` the node's own values of such names.
    ``mounts`` are directories of the node that the program also needs, read-only.
    """

    __slots__ = (
        "engine", "engine_env", "image", "memory_mb", "mounts", "shadowed", "variables", "vcores",
    )  # fmt: skip

    def __init__(self, value: Any) -> None:
        self.image = str(value["image"])
        self.engine: Optional[str] = value["engine"]
        self.engine_env: Dict[str, str] = dict(value["engine_env"])
        self.variables: List[str] = list(value["variables"])
        self.shadowed: Dict[str, str] = dict(value.get("shadowed", {}))
        self.mounts: List[str] = list(value.get("mounts", []))
        self.memory_mb = int(value["memory_mb"])
        self.vcores = int(value["vcores"])


class _Given:
    """Reads typed values from ``YTF_STARTER``; errors name the key."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        try:
            values = json.loads(self.variable(STARTER_VARIABLE))
        except ValueError as exc:
            raise ConfigError("%s is not JSON: %s" % (STARTER_VARIABLE, exc)) from exc
        if not isinstance(values, dict):
            raise ConfigError("%s is not a JSON object" % STARTER_VARIABLE)
        self._values: Dict[str, Any] = values

    def variable(self, name: str) -> str:
        value = self._environ.get(name)
        if not value:
            raise ConfigError("%s is not set: a starter is launched by a backend of ytf" % name)
        return value

    def task_index(self) -> int:
        text = self.variable("DTF_TASK_INDEX")
        if not (text.isascii() and text.isdigit()):
            raise ConfigError("DTF_TASK_INDEX is %r, not a number" % text)
        return int(text)

    def _wrong(self, key: str, wanted: str) -> ConfigError:
        if key not in self._values:
            return ConfigError("%s lacks %r: %s" % (STARTER_VARIABLE, key, wanted))
        return ConfigError(
            "%s: %r must be %s, not %r" % (STARTER_VARIABLE, key, wanted, self._values[key])
        )

    def maybe_text(self, key: str) -> Optional[str]:
        value = self._values.get(key)
        if value is not None and not (isinstance(value, str) and value):
            raise self._wrong(key, "a string or null")
        return value

    def text(self, key: str) -> str:
        value = self.maybe_text(key)
        if value is None:
            raise self._wrong(key, "a string")
        return value

    def texts(self, key: str) -> List[str]:
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, "a list of strings or null")
        return value

    def objects(self, key: str) -> List[Dict[str, Any]]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._wrong(key, "a list of objects")
        return value

    def checkpoint_sync(self) -> Dict[str, Any]:
        key = "checkpoint_sync"
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        if value and not (
            all(isinstance(value.get(each), str) for each in ("dir", "to"))
            and all(isinstance(value.get(each), (int, float)) for each in ("interval_s", "final_s"))
        ):
            raise self._wrong(key, "an object with dir, to, interval_s and final_s")
        return value

    def variables(self, key: str) -> Dict[str, str]:
        value = self._values.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(x, str) for x in value.values()):
            raise self._wrong(key, "an object of strings")
        return value

    def zookeeper(self) -> Tuple[List[str], str]:
        job_path = self.maybe_text("zookeeper_job_path")
        return self.texts("zookeeper_servers"), job_path or ""

    def url(self, key: str) -> str:
        value = self.text(key)
        try:
            split_url(value)
        except ValueError as exc:
            raise self._wrong(key, "of the form http://host:port") from exc
        return value

    def maybe_count(self, key: str) -> Optional[int]:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "a whole number, zero or more")
        return value

    def count(self, key: str) -> int:
        value = self.maybe_count(key)
        if value is None:
            raise self._wrong(key, "a whole number")
        return value

    def seconds(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
            raise self._wrong(key, "a number, zero or more")
        return float(value)

    def port_range(self, key: str) -> Optional[PortRange]:
        text = self.maybe_text(key)
        if text is None:
            return None
        first, _, last = text.partition("-")
        if not (first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 65536):
            raise self._wrong(key, "the first and the last port, such as 30000-30999")
        return int(first), int(last)

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def framework(self, key: str) -> FrameworkProfile:
        try:
            return by_name(self.text(key))
        except UnknownFrameworkError as exc:
            raise ConfigError("%s: %r: %s" % (STARTER_VARIABLE, key, exc)) from exc

    def ranked(self, key: str) -> List[Tuple[str, int]]:
        value = self._values.get(key, [])
        try:
            return [(str(group), int(processes)) for group, processes in value]
        except (TypeError, ValueError) as exc:
            raise self._wrong(key, "a list of [group, processes]") from exc

    def environment(self) -> Optional[LayeredEnvironment]:
        value = self._values.get("environment")
        if value is None:
            return None
        try:
            return LayeredEnvironment(str(value["manifest"]), list(map(str, value["layers"])))
        except (TypeError, KeyError) as exc:
            raise self._wrong("environment", "an object with a manifest and layers") from exc

    def docker(self) -> Optional[DockerConfig]:
        value = self._values.get("docker")
        if value is None:
            return None
        try:
            return DockerConfig(value)
        except (TypeError, KeyError, ValueError) as exc:
            raise self._wrong("docker", "an object with an image and its limits") from exc

    def one_of(self, key: str, allowed: Tuple[str, ...]) -> str:
        value = self._values.get(key)
        if value not in allowed:
            raise self._wrong(key, "one of " + ", ".join(allowed))
        return str(value)
