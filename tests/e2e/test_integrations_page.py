"""The code of ``docs/integrations.md`` does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.harness import BIN, Ytf

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def blocks(language: str) -> str:
    """All code of the page in one language."""
    text = PAGE.read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL))


def test_the_commands_of_torchx(ytf: Ytf) -> None:
    ytf.env["PATH"] = f"{BIN}:{ytf.env['PATH']}"
    (ytf.work / "page.sh").write_text(blocks("sh"), encoding="utf-8")
    printed = ytf.run("/bin/bash", "-eu", "page.sh").stdout
    app = re.search(r"local_\w+", printed)
    assert app
    for replica in (0, 1):
        assert f"replica {replica} of {app[0]}" in printed
    assert "State: SUCCEEDED" in printed
    assert re.search(rf"^yarn://torchx/{app[0]} +SUCCEEDED$", printed, re.MULTILINE)
