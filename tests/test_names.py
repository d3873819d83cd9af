"""Names of modules and classes: each is on the map, and tells which one is meant."""

from __future__ import annotations

import ast
import runpy
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "ytf"

SHARED = {
    "Container": "YARN's record of a container, and that of the job machine, which knows no YARN",
    "NodeLabel": "YARN's record of a label, and the name that tf-yarn's users import",
}
"""The names that two classes may have, and why."""


def test_no_two_public_classes_share_a_name() -> None:
    files: dict[str, list[str]] = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(SOURCE)))
    assert len(files) > 100
    shared = {name: sorted(paths) for name, paths in files.items() if len(paths) > 1}
    assert shared.keys() == SHARED.keys(), shared


def test_every_module_is_on_the_map() -> None:
    modules = runpy.run_path(str(SOURCE.parents[1] / "scripts" / "modules"))
    text = modules["PAGE"].read_text("utf-8")
    assert text == modules["page"](text), "run scripts/modules"
