"""The reference: made from the code, equal to what is in ``docs``, and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from ytf import errors
from ytf.cli import main
from ytf.cli.help import render, texts
from ytf.cli.help.document import Table
from ytf.cli.help.topics import event_kinds, topics
from ytf.cli.submit import command
from ytf.specs.checks import CheckName, CheckState
from ytf.specs.job import SPECS
from ytf.specs.settings import SETTINGS

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(
    ("file", "make"), [("reference.md", render.markdown), ("ytf.1", render.man_page)]
)
def test_the_files_in_docs_are_what_the_code_makes(file: str, make: object) -> None:
    assert callable(make)
    assert (DOCS / file).read_text() == make(topics()), f"run scripts/reference: {file} is old"


def cells(topic: str) -> set[str]:
    """The first column of all tables of a topic."""
    (found,) = (each for each in topics() if each.name == topic)
    return {
        row[0]
        for section in found.sections
        for block in section.blocks
        if isinstance(block, Table)
        for row in block.rows
    }


def test_every_key_of_a_job_file_and_every_setting_has_its_row() -> None:
    assert {name for spec in SPECS for name in spec.__struct_encode_fields__} <= cells("job.yaml")
    assert cells("settings") == set(SETTINGS)
    assert {kind for kind, text in event_kinds() if text} == cells("events")
    assert {each.value for each in CheckName} <= cells("checks")
    assert {"name", "state", "text", "hint", *(each.value for each in CheckState)} <= cells(
        "checks"
    )


def test_no_row_lacks_its_meaning() -> None:
    for topic in topics():
        for section in topic.sections:
            for block in section.blocks:
                if isinstance(block, Table):
                    assert all(row[0] and row[-1] for row in block.rows), topic.name


def test_every_error_has_an_exit_code_in_the_table() -> None:
    codes = {getattr(errors, name).exit_code for name in errors.__all__}
    assert codes <= set(texts.EXIT_CODES)


def test_every_option_of_both_commands_is_in_the_reference() -> None:
    options = " ".join(cells("ytf-submit") | cells("ytf")).replace(",", " ").split()
    parsers = [command.parser(), *main.parser().commands().values()]
    wanted = {word for parser in parsers for word in parser.words() if word.startswith("-")}
    # What completion scripts call is not for users.
    assert wanted - set(options) == {"-h", "--help", "--candidates"}


def test_help_lists_topics_and_prints_each(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["help"]) == 0
    listed = capfd.readouterr().out
    for topic in topics():
        assert f"  {topic.name} " in listed
        assert main.main(["help", topic.name]) == 0
        shown = capfd.readouterr().out
        is_command = topic.name in main.parser().commands()
        assert shown.startswith("usage: " if is_command else f"{topic.title}\n===")
        assert f"{topic.title}\n===" in shown
        assert all(len(line) <= 100 for line in shown.splitlines())


def test_a_topic_that_does_not_exist_gets_a_hint(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["help", "job.yml"]) == 1
    assert capfd.readouterr().err == (
        "ytf: error: there is no topic and no command 'job.yml'\nhint: did you mean 'job.yaml'?\n"
    )


@pytest.mark.parametrize(
    "words", [*([name] for name in main.parser().commands()), ["cluster", "up"]]
)
def test_help_of_a_command_is_that_commands(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["help", *words]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith(main.parser().at(words).format_help())
    assert shown.startswith(f"usage: ytf {' '.join(words)} ")


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["lgos"], "did you mean 'logs'?"), (["logs", "more"], ""), (["more", "logs"], "")],
)
def test_help_of_a_command_that_does_not_exist(
    words: list[str], hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["help", *words]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert f"there is no topic and no command {' '.join(words)!r}" in err
    assert hint in err


def test_ytf_alone_prints_its_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    out, err = capfd.readouterr()
    assert out == main.parser().format_help()
    assert err == ""


@pytest.mark.parametrize(("option", "begins"), [("--man", '.\\"'), ("--markdown", "<!--")])
def test_all_topics_at_once(option: str, begins: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["help", option]) == 0
    assert capfd.readouterr().out.startswith(begins)


def test_the_help_of_ytf_names_every_setting(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    words = capfd.readouterr().out.replace(",", " ").replace(".", " ").split()
    assert set(SETTINGS) <= set(words)


def _submit_rows() -> list[tuple[str, ...]]:
    (found,) = (each for each in topics() if each.name == "ytf-submit")
    return [
        row
        for section in found.sections
        for block in section.blocks
        if isinstance(block, Table)
        for row in block.rows
    ]
