"""What is committed is what ``scripts/protos`` makes of the ``.proto`` files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool

import ytf.hadoop.proto
from ytf.hadoop.proto import client_pb2, records_pb2

ROOT = Path(__file__).parents[3]
COMMITTED = Path(ytf.hadoop.proto.__file__).parent


def compiled(path: Path) -> descriptor_pb2.FileDescriptorSet:
    return descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())


def test_the_committed_files_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts/protos", tmp_path], check=True, timeout=60)
    made = tmp_path / "ytf/hadoop/proto"
    hint = "run scripts/protos"
    assert compiled(made / "hadoop.binpb") == compiled(COMMITTED / "hadoop.binpb"), hint
    stubs = {path.name: path.read_text() for path in made.glob("*.pyi")}
    assert stubs == {path.name: path.read_text() for path in COMMITTED.glob("*.pyi")}, hint


def test_every_file_has_its_module() -> None:
    names = {Path(file.name).stem for file in compiled(COMMITTED / "hadoop.binpb").file}
    assert names == {path.stem for path in COMMITTED.glob("*.proto")}
    assert {f"{name}_pb2" for name in names} == {path.stem for path in COMMITTED.glob("*_pb2.py")}


def test_nothing_is_registered_where_others_could_see_it() -> None:
    pool = descriptor_pool.Default()
    found = True
    try:
        pool.FindMessageTypeByName("ytf.hadoop.Container")
    except KeyError:
        found = False
    assert not found


def test_messages_share_their_parts_across_files() -> None:
    report = client_pb2.SubmissionContext(resource=records_pb2.Resource(memory_mb=1))
    assert isinstance(report.resource, records_pb2.Resource)
