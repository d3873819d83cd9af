"""The names that uploaded files may have, and what uploads tell."""

from __future__ import annotations

import pytest

from ytf.backends.api import PassingNotice, lasting_only
from ytf.backends.yarn.submit.upload import UploadProgress, check_file_name
from ytf.errors import SpecError
from ytf.packaging.layers import Layer, LayerKind


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "", 'a"b', "$HOME", "a`b", ".ytf/x"]
)
def test_names_that_would_break_a_nodes_script(name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name"):
        check_file_name(name)


def test_an_upload_tells_how_far_it_is_and_lines_leave_that_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("ytf.backends.yarn.submit.upload.time.monotonic", lambda: now)
    told: list[str] = []
    lines: list[str] = []

    def notify(text: str) -> None:
        told.append(text)
        lasting_only(lines.append)(text)

    progress = UploadProgress(notify)
    size = 40_000_000
    for name, sent in (("big", 0), ("big", 10_000_000), ("other", 0), ("other", 30_000_000)):
        progress.sent(
            Layer(kind=LayerKind.INTERPRETER, name=name, digest=name, size=0, native=()), sent, size
        )
        now += 0.2
    progress.done()
    passing = [text for text in told if isinstance(text, PassingNotice)]
    assert passing == [
        f"uploading {'░' * 30} 0 B of 40.0 MB packed so far",
        f"uploading {'█' * 3}{'░' * 27} 10.0 MB of 80.0 MB packed so far",
    ]
    assert lines == [
        "uploading big (40.0 MB)",
        "uploading other (40.0 MB)",
        "uploaded 2 layers, 80.0 MB, in 1 s; the next job that needs the same uploads nothing",
    ]
