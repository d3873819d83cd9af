"""Hadoop's XML: what it means, and what is refused with a file and a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf.errors import SettingsError
from ytf.hadoop.confxml import read_properties


def write(path: Path, body: str, head: str = "") -> Path:
    path.write_text(
        f'<?xml version="1.0"?>\n{head}'
        f'<configuration xmlns:xi="http://www.w3.org/2001/XInclude">\n{body}\n</configuration>\n'
    )
    return path


def values(path: Path) -> dict[str, str]:
    return {each.name: each.value for each in read_properties(path)}


def test_properties_with_their_place(tmp_path: Path) -> None:
    path = write(
        tmp_path / "core-site.xml",
        "<property>\n  <name> a.b </name>\n  <value>\n one\n </value>\n</property>\n"
        "<property><name>c</name><value>2</value><final> TRUE </final>"
        "<description>ignored &amp; fine</description></property>",
    )
    first, second = read_properties(path)
    assert (first.name, first.value, first.final, first.line) == ("a.b", "\n one\n ", False, 3)
    assert (second.name, second.value, second.final, second.file) == ("c", "2", True, path)


def test_cdata_comments_entities_and_attributes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.xml",
        "<property><name>a</name><value><![CDATA[<b>]]> &lt;c&gt;<!-- no --> d</value></property>"
        '<property name="e" value="f"/>'
        "<unknown><property><name>deep</name><value>1</value></property></unknown>",
    )
    assert values(path) == {"a": "<b> <c> d", "e": "f", "deep": "1"}


def test_a_property_without_a_value_is_left_out_but_an_empty_one_is_not(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.xml",
        "<property><name>none</name></property><property><name>empty</name><value/></property>",
    )
    assert values(path) == {"empty": ""}


def test_xinclude_takes_the_others_in_place(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    write(tmp_path / "more" / "in.xml", "<property><name>b</name><value>2</value></property>")
    path = write(
        tmp_path / "x.xml",
        "<property><name>a</name><value>1</value></property>"
        '<xi:include href="more/in.xml"><xi:fallback><property><name>no</name><value>0</value>'
        "</property></xi:fallback></xi:include>"
        "<property><name>c</name><value>3</value></property>",
    )
    assert list(values(path)) == ["a", "b", "c"]


def test_xinclude_by_file_url_and_with_a_fallback(tmp_path: Path) -> None:
    other = write(tmp_path / "in.xml", "<property><name>b</name><value>2</value></property>")
    path = write(
        tmp_path / "x.xml",
        f'<xi:include href="file://{other}"/>'
        '<xi:include href="missing.xml"><xi:fallback><property><name>f</name><value>9</value>'
        "</property></xi:fallback></xi:include>",
    )
    assert values(path) == {"b": "2", "f": "9"}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('<xi:include href="missing.xml"/>', "line 3: the included file cannot be read"),
        ('<xi:include href="x.xml"/>', "would never end"),
        ('<xi:include href="http://evil/x.xml"/>', "cannot include"),
        ("<xi:include/>", "cannot include"),
        ("<property><value>1</value></property>", "line 3: a property without a name"),
        ("<property><name>a</nam>", "line 3: mismatched tag"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path: Path, body: str, complaint: str) -> None:
    path = write(tmp_path / "x.xml", body)
    with pytest.raises(SettingsError) as caught:
        read_properties(path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_two_files_that_include_each_other_end(tmp_path: Path) -> None:
    write(tmp_path / "a.xml", '<xi:include href="b.xml"/>')
    path = write(tmp_path / "b.xml", '<xi:include href="a.xml"/>')
    with pytest.raises(SettingsError, match="would never end"):
        read_properties(path)


def test_nested_includes_share_one_limit(tmp_path: Path) -> None:
    write(tmp_path / "0.xml", "<property><name>a</name><value>1</value></property>")
    for number in range(1, 5):
        write(tmp_path / f"{number}.xml", f'<xi:include href="{number - 1}.xml"/>' * 8)
    with pytest.raises(SettingsError, match=r"4\.xml includes more than 64 files"):
        read_properties(tmp_path / "4.xml")


def test_nested_includes_share_one_size(tmp_path: Path) -> None:
    write(tmp_path / "in.xml", f"<!--{'x' * (1 << 20)}-->")
    path = write(tmp_path / "x.xml", '<xi:include href="in.xml"/>' * 16)
    with pytest.raises(SettingsError, match=r"x\.xml is too long .* more than 16 MiB"):
        read_properties(path)


def test_an_xml_bomb_is_refused_when_it_is_declared(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE c [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n'
    path = write(tmp_path / "x.xml", "<property><name>a</name><value>&b;</value></property>", bomb)
    with pytest.raises(SettingsError, match="line 2: it declares the entity 'a'"):
        read_properties(path)


def test_another_root_and_no_file_at_all(tmp_path: Path) -> None:
    other = tmp_path / "x.xml"
    other.write_text("<html/>")
    with pytest.raises(SettingsError, match="line 1: the outermost element is <html>"):
        read_properties(other)
    with pytest.raises(SettingsError, match="No such file"):
        read_properties(tmp_path / "none.xml")
    other.write_bytes(b"")
    with pytest.raises(SettingsError, match="no element found"):
        read_properties(other)
    other.write_text('<?xml version="1.0" encoding="klingon"?><configuration/>')
    with pytest.raises(SettingsError, match=r"x\.xml"):
        read_properties(other)
