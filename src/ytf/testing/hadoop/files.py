"""The files of a new cluster: its directories and every daemon's configuration."""

from __future__ import annotations

import shutil

from ytf.testing.hadoop.daemons import Daemon
from ytf.testing.hadoop.layout import Layout
from ytf.testing.hadoop.record import Record
from ytf.testing.hadoop.sites import conf_files


def make(layout: Layout, record: Record) -> None:
    """Write everything that a cluster needs before its first start, its record last."""
    if layout.root.is_dir():
        # The logs of one that could not be started.
        shutil.rmtree(layout.root)
    layout.root.mkdir(mode=0o700)
    for directory in (layout.logs, layout.shared_edits, layout.data("tmp"), layout.data("labels")):
        directory.mkdir(parents=True)
    write_conf(layout, record, None)
    for daemon in record.daemons.values():
        write_conf(layout, record, daemon)
    record.write(layout.record)


def write_conf(layout: Layout, record: Record, daemon: Daemon | None) -> None:
    """The configuration of one daemon and the place of its data; that of clients for None."""
    conf = layout.client_conf if daemon is None else layout.conf(daemon.name)
    conf.mkdir(parents=True)
    for name, text in conf_files(record.options, layout, record.daemons, daemon).items():
        (conf / name).write_text(text, encoding="utf-8")
    # HDFS's jars have no web pages; its servers want to find the directories at least.
    for pages in ("hdfs", "datanode"):
        (conf / "webapps" / pages).mkdir(parents=True)
    if daemon is not None:
        layout.data(daemon.name).mkdir()


def forget(layout: Layout) -> None:
    """Leave only the logs of a cluster that could not be started."""
    layout.record.unlink(missing_ok=True)
    for part in layout.root.iterdir():
        if part.is_dir() and part != layout.logs:
            shutil.rmtree(part)
