"""Texts of help that no type documents: variables, files and exit codes.

``ytf --help`` and ``ytf-submit --help`` import this module, so it imports little.
"""

from __future__ import annotations

import textwrap

from ytf.specs.settings import SETTINGS

_WIDTH = 88

TASK_VARIABLES: dict[str, str] = {
    "DTF_TASK_JOB_NAME": "The task's group: ps, worker, …; the client's is client.",
    "DTF_TASK_INDEX": "The task's index in its group, from 0.",
    "DTF_<GROUP>_HOSTS": "The addresses of each group, by index: host1:port1,host2:port2,…",
    "DTF_TASK_SCRIPT": "The name of the file that -s shipped.",
    "DTF_TASK_PROGRAM": "The task's command.",
    "DTF_INPUT_PATH": "The path of -i.",
    "DTF_OUTPUT_PATH": "The path of -o.",
    "TF_CONFIG": "With tensorflow: the same for tf.distribute.",
    "TF_GRPC_REUSE_PORT": "1 while ytf holds the port for a TensorFlow program.",
    "OMP_NUM_THREADS": "The task's vcores, divided by its processes, unless the environment has "
    "it.",
    "TF_NUM_INTRAOP_THREADS": "The same for TensorFlow.",
    "TF_NUM_INTEROP_THREADS": "The same for TensorFlow, but at least 2.",
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": "With tensorflow: the directory of the plugin with which "
    "it opens hdfs:// and viewfs://, if ytf-tensorflow-hdfs is installed beside ytf at submission.",
    "HADOOP_CONF_DIR": "The node's Hadoop configuration or, if the node names none, the "
    "submitter's.",
    "CLASSPATH, JAVA_HOME": "With --libhdfs: what Hadoop's libhdfs needs; also HADOOP_HDFS_HOME "
    "and LD_LIBRARY_PATH.",
    "MASTER_ADDR, MASTER_PORT": "With pytorch: where rank 0 opens its store, for "
    "init_process_group.",
    "RANK, WORLD_SIZE": "With pytorch: the process's number and how many there are; LOCAL_RANK and "
    "LOCAL_WORLD_SIZE are those in the task, GROUP_RANK, NODE_RANK and GROUP_WORLD_SIZE those of "
    "tasks.",
    "GLOO_SOCKET_IFNAME": "With pytorch and torchrun: the network interface by which others reach "
    "the task, unless the environment has it; also TP_SOCKET_IFNAME, and HOROVOD_GLOO_IFACE with "
    "horovod.",
    "PET_…": "With torchrun: its options for the cluster, which its command line then need not "
    "have.",
    "JAX_…, OMPI_…": "With jax: what jax.distributed.initialize() reads; also JAX_NUM_PROCESSES "
    "and JAX_PROCESS_ID, and JAX_LOCAL_DEVICE_IDS for a task with GPUs. With mpi: where mpirun "
    "finds the hostfile.",
    "HOROVOD_…": "With horovod: what hvd.init() reads with gloo.",
    "YTF_RANK": "The process's rank among all that train together, from 0: groups in their order, "
    "a chief's first, without evaluators.",
    "YTF_WORLD_SIZE": "How many processes that are.",
    "YTF_LOCAL_RANK": "The process's number in its task, from 0.",
    "YTF_LOCAL_SIZE": "How many processes the task runs (--processes).",
    "YTF_HOSTS": "The addresses of these tasks in the order of ranks: host1:port1,…",
    "YTF_HOSTFILE": "The path of a file with their hosts, as mpirun and deepspeed read it: lines "
    "of `host slots=n`, n being the processes there.",
    "YTF_TASK_HOST": "The task's own host.",
    "YTF_TASK_PORT": "The task's own port; the client has none.",
    "YTF_TASK": "The task's id: worker:0.",
    "YTF_JOB_ID": "The job's id.",
    "YTF_ATTEMPT": "Which attempt of the task this is, from 1.",
    "YTF_GENERATION": "Which run of the whole job this is: it changes with each restart-job.",
    "YTF_CONTAINER_ID": "The container's id.",
    "YTF_STARTED_BY": "Which starter started the program; ytf finds leftover processes by it.",
    "YTF_CLUSTER_SPEC_FILE": "The path of a JSON file with all addresses. Addresses that do not "
    "fit a variable (128 KiB) are only there.",
    "YTF_METRICS_FILE": "Where the program may write numbers for `ytf status`, the job's page and "
    'Prometheus to show, as a JSON object: {"step": 100, "loss": 0.3}. The file is replaced, or '
    "renamed to this name, with each report; from Python: `ytf.report_metrics`.",
}
"""The variables that a task's program finds in its environment."""

_IN_SUBMIT_HELP = (
    *("DTF_TASK_JOB_NAME", "DTF_TASK_INDEX", "DTF_<GROUP>_HOSTS", "DTF_TASK_SCRIPT"),
    *("DTF_INPUT_PATH", "DTF_OUTPUT_PATH", "TF_CONFIG", "YTF_TASK_PORT", "YTF_CLUSTER_SPEC_FILE"),
)

CLIENT_VARIABLES: dict[str, str] = {
    "YTF_HOME": "The directory in which ytf keeps its files. Default: ~/.ytf.",
    "HADOOP_CONF_DIR, YARN_CONF_DIR": "The directory with yarn-site.xml and core-site.xml. "
    "Jobs then go to YARN by default.",
    "HADOOP_HOME": "Its directory etc/hadoop is used if neither of the above is set.",
    "YTF_TENSORBOARD": "The command that runs TensorBoard. Default: ytf builds an environment "
    "for it.",
    "YTF_LOCAL_MEMORY_MB": "The memory that the local backend gives to all tasks of a job "
    "together. Default: no limit.",
    "YTF_HADOOP_CACHE": "Where `ytf cluster` keeps the jars of Hadoop. Default: $YTF_HOME/hadoop.",
    "NO_COLOR": "If set, no command prints colours.",
}
"""The variables that the commands read, besides those of settings."""

FILES_HERE: dict[str, str] = {
    "ytf.toml": "Settings of a project: the nearest one from the working directory upward.",
    "$YTF_HOME/ytf.toml": "The user's settings.",
    "$YTF_HOME/jobs/<id>/": "A local job while it runs: its spec, secret, journal, shipped files "
    "and the working directories of its tasks.",
    "$YTF_HOME/history/<id>/": "What is kept of a local job for history_days days: record.json "
    "and the logs of its tasks in logs/<group>-<index>/<attempt>/.",
    "$YTF_HOME/last/": "The ids of the jobs that were submitted last from here, one for each "
    "cluster: what @last is.",
    "$YTF_HOME/environments/": "Environments that ytf has made: from files given to --env, and "
    "that of TensorBoard. In .downloads/ is what is downloaded for one.",
    "$YTF_HOME/layers/": "What is known of layers: their names, and packed archives.",
    "$YTF_HOME/secrets/<user>/": "The secrets of running jobs on YARN, so that their masters "
    "can be asked while HDFS is unavailable. Only you can read them.",
    "$YTF_HOME/gc/": "The output of the last background gc of each cluster.",
    "$YTF_HOME/clusters/<name>/": "The clusters of `ytf cluster`: configuration, data and logs.",
    "$YTF_HOME/hadoop/": "The jars of Hadoop for `ytf cluster`.",
}
FILES_HDFS: dict[str, str] = {
    "/user/<user>/.ytf/jobs/<application id>/": "A job while it runs: its spec and secret, "
    "journal and shipped files. Removed at its end.",
    "/user/<user>/.ytf/history/<application id>/record.json": "What is kept of a job for "
    "history_days days. Logs are kept by YARN's log aggregation.",
    "/user/<user>/.ytf/layers/": "Environments and ytf itself as layers, for all jobs of the "
    "user. gc removes layers that were not used for a while.",
}

EXIT_CODES: dict[int, str] = {
    0: "Done. With --wait, and with a client: the job succeeded.",
    1: "Refused, not found, not reachable, or the job that was waited for did not succeed; a "
    "check of `ytf doctor` failed.",
    2: "Wrong usage, job file or settings, or a problem of this machine (a full disk, for "
    "example).",
    70: "A bug in ytf: please report it.",
    130: "Interrupted with Ctrl-C (SIGINT); 143 with SIGTERM, 129 with SIGHUP.",
    141: "The process that read stdout has gone (SIGPIPE).",
}
"""The exit codes of ``ytf`` and ``ytf-submit``. ``ytf attach`` and
``ytf shell`` return that of their command."""


def ytf_epilog() -> str:
    """The end of ``ytf --help``: the settings and the exit codes."""
    keys = textwrap.fill(f"They are {', '.join(SETTINGS)}.", _WIDTH)
    codes = _listing({str(code): text for code, text in EXIT_CODES.items()}, indent=7)
    return (
        "settings, the strongest first: options, YTF_<SETTING> variables, the nearest ytf.toml\n"
        "from the working directory upward, $YTF_HOME/ytf.toml (YTF_HOME: ~/.ytf by default).\n"
        f"{keys}\n\nexit codes:\n{codes}\n\n"
        "`ytf help` lists topics: job files, settings, events, files and more.\n"
    )


def submit_epilog() -> str:
    """The end of ``ytf-submit --help``: the variables of tasks, and examples."""
    variables = _listing({name: TASK_VARIABLES[name] for name in _IN_SUBMIT_HELP}, indent=25)
    return f"task execution environment:\n{variables}\n\n{_EXAMPLES}"


def _listing(texts: dict[str, str], indent: int) -> str:
    """Names and their texts in two columns."""
    return "\n".join(
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"  {name}".ljust(indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
        for name, text in texts.items()
    )


_EXAMPLES = """\
examples:
  ytf-submit -r ps:1,worker:2 -s train.py 'python $DTF_TASK_SCRIPT'
  ytf-submit -r ps:2,worker:4 -m 4096 -m 'worker[0]:16 GiB' -c worker:2 \\
             -t -o /shared/run1 'python /shared/train.py --dir "$DTF_OUTPUT_PATH"'
  ytf-submit -r ps:1,worker:2 --servers --client --client_command 'python -i explore.py'

Settings may also come from ytf.toml and YTF_* variables: see `ytf help settings`.
All variables of a task: see `ytf help task-variables`.
"""
