"""The simulated file system of the tests keeps the contract of the real ones."""

from __future__ import annotations

import pytest

from tests.storage.contracts import FilesContract
from tests.storage.memory_files import Disk, MemoryFiles
from ytf.storage.files import Files


class TestMemoryFiles(FilesContract):
    @pytest.fixture
    def files(self) -> Files:
        return MemoryFiles(Disk())

    @pytest.fixture
    def root(self, files: Files) -> str:
        files.mkdir("/root", 0o755)
        return "/root"
