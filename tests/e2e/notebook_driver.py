"""Runs a notebook without a browser, as ``python notebook_driver.py NOTEBOOK`` of .venv-notebook.

A cell that is tagged ``stop`` is interrupted, as the stop button does, once its output shows a
running job. The notebook is written back with its outputs. Each output that can be replaced in
its place is printed as a line of JSON, whenever it comes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import nbformat
from nbclient import NotebookClient

_KINDS = ("display_data", "update_display_data")


class Driver(NotebookClient):  # type: ignore[misc]
    """Executes the cells, sees each message of the kernel, and presses the stop button."""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        """Take a message that the kernel sent while a cell runs."""
        content = msg["content"]
        if msg["msg_type"] in _KINDS and "display_id" in content.get("transient", {}):
            html = content["data"]["text/html"]
            about = {"cell": cell_index, "kind": msg["msg_type"], "html": html}
            print(json.dumps({**about, "id": content["transient"]["display_id"]}), flush=True)
            tags = cell.metadata.get("tags", [])
            if "stop" in tags and ">RUNNING<" in html:
                tags.remove("stop")
                self._stopping = asyncio.ensure_future(self.km.interrupt_kernel())
        return super().process_message(msg, cell, cell_index)


async def main(path: str) -> None:
    """Execute all cells, also after errors."""
    notebook = nbformat.read(path, as_version=4)
    await Driver(notebook, timeout=120, allow_errors=True, kernel_name="python3").async_execute()
    nbformat.write(notebook, path)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
