"""Lines and tables: inert, aligned, coloured on a terminal only."""

from __future__ import annotations

import io

import pytest

from workbench.cli.output import Output


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")


def test_colour_is_used_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, variables, colour in (
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
    ):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            Output(stream).line(("done", "good"))
        assert ("\x1b[" in stream.getvalue()) is colour
        assert "done" in stream.getvalue()


def test_i13_nothing_that_is_written_acts_on_the_terminal() -> None:
    hostile = "\x1b]0;title\x07\x9b2J\u202e\r\nx"
    stream = Terminal()
    output = Output(stream)
    output.line(hostile, (hostile, "bad"))
    output.table([[hostile, (hostile, "good")], ["a", "b"]])
    output.text(hostile)
    written = stream.getvalue()
    for own in ("\x1b[31m", "\x1b[32m", "\x1b[0m"):
        written = written.replace(own, "")
    assert not set(written.replace("\n", "")) & {*map(chr, range(32)), "\x7f", "\x9b", "\u202e"}
    assert written.count("\n") == 1 + 2 + 2


def test_columns_line_up_by_cells() -> None:
    stream = io.StringIO()
    Output(stream).table([["日本", "1"], ["a", "22"], ["abcdef"]], indent="  ", right=(1,))
    assert stream.getvalue() == "  日本     1\n  a       22\n  abcdef\n"


def test_the_last_column_is_cut_to_the_terminal_and_not_in_a_file() -> None:
    row = [["name", "x" * 60]]
    terminal, file = Terminal(), io.StringIO()
    Output(terminal).table(row)
    Output(file).table(row)
    assert terminal.getvalue() == "name  " + "x" * 33 + "…\n"
    assert file.getvalue() == "name  " + "x" * 60 + "\n"


def test_a_stream_that_cannot_carry_the_glyphs_is_noticed() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert not Output(narrow).unicode
    assert Output(io.StringIO()).unicode
    narrow.close()
