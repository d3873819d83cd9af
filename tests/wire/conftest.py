from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.starter.fake_master import SECRET, FakeMaster


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    with closing(FakeMaster(SECRET)) as fake:
        yield fake
