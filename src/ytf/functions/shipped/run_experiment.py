"""Runs an experiment in one task, as tf-yarn's task of that kind does.

Its functions travel to the tasks as code. They use the standard library, and TensorFlow,
Horovod and PyTorch of the user's environment, which they import by name: ytf has none to be
checked against. Which kind of experiment it is, the name of its class tells: nothing of ytf is
imported but ``report_metrics``, which travels as code, too.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from ytf.functions.shipped.report_metrics import report_metrics

TRAIN = "train"
EVALUATE = "evaluate"
HOROVOD = "horovod"
PYTORCH = "pytorch"
_NO_CHECKPOINT_S = 1200.0
"""How long an evaluator waits for a new checkpoint before it ends."""
_KERAS_PAUSE_S = 30.0
_REPORT_EVERY_S = 1.0


def run_experiment(experiment_fn: Callable[[], Any], kind: str, tensorboard_args: str) -> Any:
    """Do this task's part of the experiment; return when it began and ended, for metrics."""
    group = os.environ["DTF_TASK_JOB_NAME"]
    if kind == EVALUATE and group not in ("evaluator", "tensorboard"):
        print(f"{group}: nothing to do beside a stand-alone evaluator", flush=True)
        return None
    if kind == EVALUATE:
        # It is in no cluster, and an Estimator refuses an evaluator without one.
        os.environ.pop("TF_CONFIG", None)
    if kind == HOROVOD and group in ("chief", "worker"):
        importlib.import_module("horovod.tensorflow").init()
    if group == "tensorboard":
        serve_tensorboard(experiment_fn, tensorboard_args)
    experiment = experiment_fn()
    name = type(experiment).__name__
    if name not in ("Experiment", "KerasExperiment", "PytorchExperiment"):
        raise ValueError(
            f"the experiment function returned a {name}, not an Experiment, a KerasExperiment or "
            "a PytorchExperiment"
        )
    began = time.time()
    if name == "PytorchExperiment":
        train_pytorch(experiment)
        return began, time.time()
    if group == "evaluator" and (kind != TRAIN or name == "KerasExperiment"):
        (evaluate if name == "Experiment" else keras_evaluate)(experiment)
    elif name == "KerasExperiment":
        fit(experiment, group)
    elif kind == HOROVOD:
        train(experiment, group)
    else:
        tf = importlib.import_module("tensorflow")
        spec = experiment.eval_spec
        if group == "evaluator":
            spec = spec._replace(hooks=(*spec.hooks, estimator_hook(tf, EvaluationMeter())))
        tf.estimator.train_and_evaluate(experiment.estimator, experiment.train_spec, spec)
    return began, time.time()


class EvaluationMeter:
    """Counts and times the steps of an evaluator, and reports them by tf-yarn's names."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._reported = 0.0
        self._steps = 0
        self._busy_s = 0.0

    def add(self, took_s: float, training_step: int | None) -> None:
        """Count one step, which evaluated what the training had reached at ``training_step``."""
        self._steps += 1
        self._busy_s += took_s
        now = time.monotonic()
        if self._steps > 1 and now - self._reported < _REPORT_EVERY_S:
            return
        self._reported = now
        self.report(training_step)

    def report(self, training_step: int | None) -> None:
        """Report all steps so far."""
        if not self._steps:
            return
        figures: dict[str, float] = {
            "nb_eval_steps": self._steps,
            "eval_step_mean_duration": self._busy_s / self._steps,
            "awake_time_ratio": self._busy_s / max(time.monotonic() - self._began, 1e-9),
        }
        if training_step is not None:
            figures["last_training_step"] = training_step
        report_metrics(figures)


def estimator_hook(tf: Any, meter: EvaluationMeter) -> Any:
    """A hook of an Estimator that measures each step of an evaluation."""

    class MeasuringHook(tf.estimator.SessionRunHook):  # type: ignore[misc]
        def before_run(self, run_context: Any) -> Any:
            self.began = time.monotonic()
            return tf.estimator.SessionRunArgs(tf.compat.v1.train.get_global_step())

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.training_step = int(run_values.results)
            meter.add(time.monotonic() - self.began, self.training_step)

        def end(self, session: Any) -> None:
            meter.report(self.training_step)

    return MeasuringHook()


def keras_callback(keras: Any, meter: EvaluationMeter) -> Any:
    """A callback of Keras that measures each batch of an evaluation."""

    class MeasuringCallback(keras.callbacks.Callback):  # type: ignore[misc]
        def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.began = time.monotonic()

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            meter.add(time.monotonic() - self.began, self.training_step())

        def on_test_end(self, logs: Any = None) -> None:
            meter.report(self.training_step())

        def training_step(self) -> int | None:
            optimizer = getattr(self.model, "optimizer", None)
            return None if optimizer is None else int(optimizer.iterations)

    return MeasuringCallback()


def keras_of(model: Any) -> Any:
    """The Keras that a model is of: ``tf_keras`` can be beside the one that is ``tf.keras``."""
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ("keras", "tf_keras"):
            return importlib.import_module(package)
    return importlib.import_module("tensorflow").keras


def fit(experiment: Any, group: str) -> None:
    """Train a Keras model. Only a chief writes checkpoints; a ps serves until it is stopped."""
    if group == "ps":
        tf = importlib.import_module("tensorflow")
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        tf.distribute.Server(
            resolver.cluster_spec(), job_name=group, task_index=resolver.task_id
        ).join()
    params = dict(experiment.train_params)
    if group != "chief" and params.get("callbacks"):
        checkpoint = keras_of(experiment.model).callbacks.ModelCheckpoint
        params["callbacks"] = [
            each for each in params["callbacks"] if not isinstance(each, checkpoint)
        ]
    if experiment.input_data_fn is not None:
        params["x"] = experiment.input_data_fn()
    if experiment.target_data_fn is not None:
        params["y"] = experiment.target_data_fn()
    experiment.model.fit(**params)


def train(experiment: Any, group: str) -> None:
    """Train an Estimator whose optimizer averages over all tasks. Only a chief writes."""
    estimator, spec = experiment.estimator, experiment.train_spec
    if group != "chief":
        estimator._model_dir = "."
        estimator._config = estimator.config.replace(
            save_summary_steps=None,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
            log_step_count_steps=None,
        )
    estimator.train(spec.input_fn, hooks=spec.hooks, max_steps=spec.max_steps)


def train_pytorch(experiment: Any) -> None:
    """Train a PyTorch model in this process, together with those of all others."""
    if "RANK" not in os.environ:
        raise ValueError(
            "a PytorchExperiment needs the variables of PyTorch: call run_on_yarn with "
            "custom_task_module='tf_yarn.pytorch.tasks.worker'"
        )
    rank = int(os.environ["RANK"])
    summaries = os.path.join("summaries", f"worker{rank}")
    kept = experiment.tensorboard_hdfs_dir
    keep_summaries = summaries_copier(summaries, kept) if kept else None
    writer = summary_writer(summaries)
    if writer is None and kept:
        raise ValueError("tensorboard_hdfs_dir needs TensorBoard in the environment of the tasks")
    torch = importlib.import_module("torch")
    distributed = importlib.import_module("torch.distributed")
    data = importlib.import_module("torch.utils.data")
    gpus = torch.cuda.device_count()
    device = f"cuda:{int(os.environ['LOCAL_RANK']) % gpus}" if gpus else "cpu"
    distributed.init_process_group("nccl" if gpus else "gloo")
    args = experiment.dataloader_args._asdict()
    if not args["num_workers"]:
        del args["prefetch_factor"]  # only with workers, says PyTorch
    if not isinstance(experiment.train_dataset, data.IterableDataset):
        args["sampler"] = data.DistributedSampler(
            experiment.train_dataset, shuffle=args.pop("shuffle")
        )
    model = torch.nn.parallel.DistributedDataParallel(
        experiment.model.to(device),
        device_ids=[device] if gpus else None,
        **(experiment.ddp_args._asdict() if experiment.ddp_args else {}),
    )
    experiment.main_fn(
        model, data.DataLoader(experiment.train_dataset, **args), device, rank, writer
    )
    if writer is not None:
        writer.close()
    if keep_summaries is not None:
        keep_summaries()
    distributed.destroy_process_group()


def summary_writer(folder: str) -> Any:
    """A writer of summaries; None without TensorBoard."""
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter(folder)
    except ImportError:
        print("TensorBoard is not installed: main_fn gets no SummaryWriter", flush=True)
        return None


def summaries_copier(folder: str, to: str) -> Callable[[], object]:
    """A function that copies the files of ``folder`` to a directory of the same name in ``to``.

    What it needs is looked for now: nobody wants to hear of it after the training.
    """
    place = f"{to.rstrip('/')}/{os.path.basename(folder)}"
    scheme, has_scheme, rest = place.partition("://")
    if not has_scheme:
        return lambda: shutil.copytree(folder, place, dirs_exist_ok=True)
    try:
        hdfs = importlib.import_module("hdfs_native")
    except ImportError:
        raise ValueError(
            "tensorboard_hdfs_dir needs the package hdfs-native in the environment of the tasks"
        ) from None
    host, _, path = rest.partition("/")
    client = hdfs.Client(f"{scheme}://{host}" if host else None)
    client.mkdirs(f"/{path}", create_parent=True)

    def copy() -> None:
        for below, _, names in os.walk(folder):
            relative = os.path.relpath(below, folder)
            target = f"/{path}" if relative == "." else f"/{path}/{relative}"
            client.mkdirs(target, create_parent=True)
            for name in names:
                with (
                    open(os.path.join(below, name), "rb") as source,
                    client.create(f"{target}/{name}", hdfs.WriteOptions(overwrite=True)) as copied,
                ):
                    while piece := source.read(1 << 20):
                        copied.write(piece)

    return copy


def evaluate(experiment: Any) -> None:
    """Evaluate each checkpoint of an Estimator, up to that of its last step."""
    tf = importlib.import_module("tensorflow")
    estimator, spec = experiment.estimator, experiment.eval_spec
    last_step = experiment.train_spec.max_steps
    hooks = (*(spec.hooks or ()), estimator_hook(tf, EvaluationMeter()))
    done = evaluated_steps(tf, os.path.join(estimator.model_dir, "eval"))
    time.sleep(spec.start_delay_secs)
    newest = time.monotonic()
    while not (last_step and done and max(done) >= last_step):
        if time.monotonic() - newest > _NO_CHECKPOINT_S:
            print(f"no new checkpoint in {_NO_CHECKPOINT_S:.0f} s: the evaluator ends", flush=True)
            return
        state = tf.train.get_checkpoint_state(estimator.model_dir)
        paths = state.all_model_checkpoint_paths if state else []
        new = [path for path in paths if int(path.rpartition("-")[2]) not in done]
        for path in new:
            step = int(path.rpartition("-")[2])
            result = estimator.evaluate(
                spec.input_fn,
                steps=spec.steps,
                hooks=hooks,
                name=spec.name,
                checkpoint_path=path,
            )
            done.add(step)
            newest = time.monotonic()
            for exporter in spec.exporters or ():
                where = os.path.join(estimator.model_dir, exporter.name)
                is_last = bool(last_step and step >= last_step)
                exporter.export(estimator, where, path, result, is_last)
        if not new:
            time.sleep(spec.throttle_secs)


def evaluated_steps(tf: Any, folder: str) -> set[int]:
    """The steps of which an earlier evaluator has written summaries."""
    if not tf.io.gfile.exists(folder):
        return set()
    return {
        event.step
        for name in tf.io.gfile.listdir(folder)
        if ".tfevents." in name
        for event in tf.compat.v1.train.summary_iterator(os.path.join(folder, name))
        if event.HasField("summary")
    }


def keras_evaluate(experiment: Any) -> None:
    """Evaluate each model that the training saves below its directory, until it is stopped."""
    tf = importlib.import_module("tensorflow")
    keras = keras_of(experiment.model)
    done: set[str] = set()
    callback = keras_callback(keras, EvaluationMeter())
    newest = time.monotonic()
    while time.monotonic() - newest < _NO_CHECKPOINT_S:
        for path in saved_models(tf, experiment.model_dir):
            if path not in done:
                print(f"evaluating {path}", flush=True)
                model = keras.models.load_model(path)
                data = experiment.validation_data_fn()
                print(model.evaluate(data, callbacks=[callback]), flush=True)
                done.add(path)
                newest = time.monotonic()
        time.sleep(_KERAS_PAUSE_S)


def saved_models(tf: Any, folder: str) -> list[str]:
    """The models that are saved in a directory: files of Keras, and SavedModels."""
    if not tf.io.gfile.exists(folder):
        return []
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    paths = [os.path.join(folder, name) for name in names]
    return [
        path
        for path in paths
        if path.endswith((".keras", ".h5"))
        or tf.io.gfile.exists(os.path.join(path, "saved_model.pb"))
    ]


def serve_tensorboard(experiment_fn: Callable[[], Any], args: str) -> None:
    """Become a TensorBoard of the user's environment, on the experiment's directory."""
    folder = os.environ.get("TB_MODEL_DIR")
    if folder is None:
        experiment = experiment_fn()
        folder = getattr(experiment, "model_dir", None) or experiment.estimator.model_dir
    host, port = os.environ["YTF_TASK_HOST"], os.environ["YTF_TASK_PORT"]
    words = ["-m", "tensorboard.main", "--logdir", folder, "--host", host, "--port", port]
    os.execv(sys.executable, [sys.executable, *words, *shlex.split(args)])
