"""What goes wrong in the background is written to a file, never to the terminal."""

import logging
from pathlib import Path

import pytest

from workbench import logs


@pytest.fixture(autouse=True)
def no_other_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


def test_records_go_to_a_private_file_and_not_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.logged(tmp_path):
        logging.getLogger("workflows_core.x").info("loaded %s", "2 of 3")
        logging.getLogger("somebody").info("chatter")
        logging.getLogger("somebody").warning("trouble \x1b[2J\nsecond line")
    path = tmp_path / logs.LOG_NAME
    lines = path.read_text("utf-8").splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "INFO workflows_core.x: loaded 2 of 3",
        "WARNING somebody: trouble ␛[2J␊second line",
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr() == ("", "")


def test_i14_an_exception_is_kept_without_its_message(tmp_path: Path) -> None:
    with logs.logged(tmp_path):
        try:
            try:
                raise KeyError("sk-inner")
            except KeyError as inner:
                raise ValueError("sk-secret") from inner
        except ValueError:
            logging.getLogger("workbench").exception("it failed")
    written = (tmp_path / logs.LOG_NAME).read_text("utf-8")
    assert "builtins.ValueError" in written
    assert "builtins.KeyError" in written
    assert "test_logs.py" in written
    assert "it failed" in written
    # The source line that raised is code, and this test's own code names the text; the message line is gone.
    assert "ValueError: sk-secret" not in written
    assert "KeyError: 'sk-inner'" not in written


def test_without_a_folder_records_are_dropped_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    with logs.logged(None):
        logging.getLogger("somebody").error("nobody reads this")
    assert capsys.readouterr() == ("", "")


def test_a_log_that_cannot_be_written_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logs.logged(tmp_path / "missing"):
        logging.getLogger("somebody").error("lost")
    assert capsys.readouterr() == ("", "")


def test_a_long_log_is_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES", 10)
    for text in ("first entry\n", "second\n"):
        logs.append(tmp_path / "a.log", text)
    assert (tmp_path / "a.log").read_text() == "second\n"
    assert (tmp_path / "a.log.1").read_text() == "first entry\n"


def test_handlers_and_levels_are_put_back() -> None:
    ours = logging.getLogger("workbench")
    before = (list(logging.getLogger().handlers), ours.level)
    with logs.logged(None):
        assert ours.level == logging.INFO
    assert (list(logging.getLogger().handlers), ours.level) == before
