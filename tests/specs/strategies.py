"""Random job specs that make sense."""

from __future__ import annotations

from hypothesis import strategies as st

from ytf.specs.amounts import MAX_INT
from ytf.specs.check import MAX_TAGS, TAG
from ytf.specs.grammar import Place
from ytf.specs.job import (
    Backoff,
    Framework,
    JobSpec,
    MasterSpec,
    OnFailure,
    Placement,
    Resources,
    TaskGroupSpec,
    Timeouts,
)

# Surrogates cannot be encoded; NUL cannot be passed to a program.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
WORDS = TEXT.filter(str.strip)
LINES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30).filter(str.strip)
# Text that YAML takes for something else if nobody quotes it.
TRAPS = st.sampled_from(
    ["no", "1e3", "010", "0x1f", "12:30:00", "null", "~", ".5", "1_000", "<<", "=", "2001-01-01"]
)
SOME_TEXT = WORDS | TRAPS

memory_mb = st.integers(1, MAX_INT)
group_names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.lower() not in ("client", "tensorboard")
)
seconds = st.floats(0.001, 1e6)


def requirements() -> st.SearchStrategy[dict[str, int]]:
    names = st.lists(group_names, min_size=1, max_size=5, unique_by=str.lower)
    return names.flatmap(
        lambda chosen: st.fixed_dictionaries({name: st.integers(1, 100_000) for name in chosen})
    )


def overrides(
    counts: dict[str, int], amounts: st.SearchStrategy[int]
) -> st.SearchStrategy[dict[Place, int]]:
    places = st.just(Place()) | st.sampled_from(sorted(counts)).flatmap(
        lambda group: st.builds(
            Place, st.just(group), st.none() | st.integers(0, counts[group] - 1)
        )
    )
    return st.dictionaries(places, amounts, max_size=6)


resources = st.builds(
    Resources,
    memory=memory_mb,
    vcores=st.integers(1, MAX_INT),
    gpus=st.integers(0, MAX_INT),
    others=st.dictionaries(
        st.from_regex(r"(yarn\.io/)?[a-z]{3}", fullmatch=True), st.integers(0, MAX_INT), max_size=2
    ),
)
labels = st.none() | st.just("") | st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,9}", fullmatch=True)
acls = st.none() | st.sampled_from(["*", "alice", "alice,bob admins", " admins", "no"])
tags = st.lists(st.from_regex(TAG, fullmatch=True), max_size=MAX_TAGS).map(tuple)
backoffs = st.builds(
    Backoff, initial_s=st.floats(0, 10), factor=st.floats(1, 100), max_s=st.floats(10, 1e6)
)
envs = st.dictionaries(
    SOME_TEXT.filter(
        lambda name: (
            "=" not in name and not name.startswith(("DTF_", "YTF_")) and name != "TF_CONFIG"
        )
    ),
    TEXT | TRAPS,
    max_size=3,
)


@st.composite
def groups(draw: st.DrawFn) -> TaskGroupSpec:
    count = draw(st.integers(1, 100_000))
    return TaskGroupSpec(
        count=count,
        command=draw(st.none() | SOME_TEXT),
        resources=draw(st.just(Resources()) | resources),
        overrides=draw(st.dictionaries(st.integers(0, count - 1), resources, max_size=3)),
        tracked=draw(st.none() | st.just(True)),
        on_failure=draw(st.none() | st.sampled_from(OnFailure)),
        max_restarts=draw(st.integers(0, MAX_INT)),
        backoff=draw(st.just(Backoff()) | backoffs),
        min=draw(st.none() | st.integers(1, count)),
        task_env=draw(envs),
        task_env_overrides=draw(st.dictionaries(st.integers(0, count - 1), envs, max_size=3)),
        framework=draw(st.none() | st.sampled_from(Framework)),
        node_label=draw(labels),
        placement=draw(st.none() | st.sampled_from(Placement)),
    )


@st.composite
def job_specs(draw: st.DrawFn) -> JobSpec:
    names = draw(st.lists(group_names, min_size=1, max_size=3, unique_by=str.lower))
    client = draw(st.booleans())
    files = st.from_regex(r"f[a-z]{0,5}", fullmatch=True)
    return JobSpec(
        groups={name: draw(groups()) for name in names},
        command=draw(SOME_TEXT),
        name=draw(LINES | TRAPS),
        queue=draw(LINES | TRAPS),
        input=draw(st.none() | SOME_TEXT),
        output=draw(SOME_TEXT),
        script=draw(st.none() | st.just("/home/someone/train it.py")),
        files=draw(st.dictionaries(files, SOME_TEXT, max_size=3)),
        task_env=draw(envs),
        env=draw(SOME_TEXT),
        framework=draw(st.sampled_from(Framework)),
        tensorboard=draw(st.booleans()),
        client=client,
        client_command=draw(st.none() | SOME_TEXT) if client else None,
        priority=draw(st.none() | st.integers(0, MAX_INT)),
        tags=draw(tags),
        acl_view=draw(acls),
        acl_modify=draw(acls),
        node_label=draw(labels),
        placement=draw(st.sampled_from(Placement)),
        timeouts=draw(
            st.just(Timeouts())
            | st.builds(
                Timeouts,
                allocation_s=seconds,
                job_s=st.none() | seconds,
                lifetime_s=st.none() | seconds,
                master_silence_s=seconds,
            )
        ),
        master=draw(
            st.just(MasterSpec())
            | st.builds(MasterSpec, resources=resources, max_attempts=st.integers(1, 100))
        ),
        max_node_failures=draw(st.integers(1, MAX_INT)),
        log_limit_mb=draw(st.integers(1, MAX_INT)),
    )
