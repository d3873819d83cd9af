"""The names that uploaded files may have."""

from __future__ import annotations

import pytest

from ytf.backends.yarn.submit.upload import check_file_name
from ytf.errors import SpecError


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "", 'a"b', "$HOME", "a`b", ".ytf/x"]
)
def test_names_that_would_break_a_nodes_script(name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name"):
        check_file_name(name)
