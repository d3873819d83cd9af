"""The code of ``docs/python.md`` does what the comments in it say."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.harness import Ytf

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_code_of_the_page_runs(ytf: Ytf) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (ytf.work / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    lines = ytf.run("python", "page.py", timeout_s=200).stdout.splitlines()
    assert lines[0] == "[3, 13]"
    assert lines[1].startswith("worker:0 on ")
    assert lines[2] == "ValueError('no data for worker:0')"
    assert lines[3] == "Traceback (most recent call last):"
    assert lines[-5].startswith("local_")
    assert lines[-4:] == [
        "[5, 15]",
        "[[1, 11], [2]]",
        """failed: ModuleNotFoundError("No module named 'my_training'")""",
        "['0', '1']",
    ]
