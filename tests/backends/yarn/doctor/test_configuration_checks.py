"""What is wrong with a configuration is told before anybody is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.backends.yarn.doctor.cluster import Cluster
from ytf.backends.yarn.doctor.configuration_checks import check_configuration, check_security
from ytf.errors import SettingsError
from ytf.minicluster.configuration import to_xml
from ytf.specs.checks import CheckState


def cluster(folder: Path, *names: str, **environ: str) -> Cluster:
    for name in names:
        (folder / name).write_text(to_xml({}))
    return Cluster({"HADOOP_CONF_DIR": str(folder), **environ})


def test_where_it_is_and_which_files_it_has(tmp_path: Path) -> None:
    found = check_configuration(cluster(tmp_path, "core-site.xml", "yarn-site.xml"))
    assert found.state is CheckState.OK
    assert found.text == f"{tmp_path} (from HADOOP_CONF_DIR): core-site.xml, yarn-site.xml"


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    found = check_configuration(cluster(tmp_path, "yarn-site.xml"))
    assert found.state is CheckState.FAILED
    assert found.text == f"{tmp_path} has no core-site.xml"


def test_a_file_that_is_malformed(tmp_path: Path) -> None:
    broken = cluster(tmp_path, "core-site.xml", "yarn-site.xml")
    (tmp_path / "yarn-site.xml").write_text("<configuration><property>")
    with pytest.raises(SettingsError, match=r"yarn-site\.xml"):
        check_configuration(broken)


def test_who_the_cluster_believes_that_we_are(tmp_path: Path) -> None:
    found = check_security(cluster(tmp_path, "core-site.xml", HADOOP_USER_NAME="alice"))
    assert found.state is CheckState.OK
    assert found.text == "simple: the cluster believes that you are alice (HADOOP_USER_NAME)"


@pytest.mark.parametrize(
    ("code", "ticket"), [(0, " (you have a valid ticket)"), (1, " (you have no valid ticket)")]
)
def test_kerberos_is_refused_and_the_ticket_is_looked_at(
    code: int, ticket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    klist = programs / "klist"
    klist.write_text(f'#!/bin/sh\n[ "$*" = -s ] && exit {code}\nexit 9\n')
    klist.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    secure = cluster(tmp_path)
    (tmp_path / "core-site.xml").write_text(to_xml({"hadoop.security.authentication": "kerberos"}))
    found = check_security(secure)
    assert found.state is CheckState.FAILED
    assert "Kerberos is not supported yet" in found.text
    assert found.text.endswith(ticket)


def test_without_klist_nothing_is_said_of_tickets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    secure = cluster(tmp_path)
    (tmp_path / "core-site.xml").write_text(to_xml({"hadoop.security.authentication": "kerberos"}))
    assert "ticket" not in check_security(secure).text
