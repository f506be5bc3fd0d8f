"""A person's settings: where they come from, which wins, and what is said about a file that is wrong."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from workbench.settings import DEFAULT_THEME, Session, Settings, session_path, settings_path
from workflows_core.errors import ConfigurationError


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TERM", "xterm-256color")


def write(text: str) -> Path:
    path = settings_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_the_defaults_hold(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, keymap={}, theme=None)
    assert (settings.theme, dict(settings.keymap)) == (DEFAULT_THEME, {})


def test_the_persons_own_file_wins_over_the_workspace(tmp_path: Path) -> None:
    write("theme: nord\nkeymap: {runs.cancel: x}\nascii: true\n")
    settings = Settings.load(tmp_path, keymap={"runs.cancel": "f7", "runs.delete": "f8"}, theme="dracula")
    assert settings.theme == "nord"
    assert settings.keymap == {"runs.cancel": "x", "runs.delete": "f8"}
    assert settings.ascii


def test_letters_and_mouse_are_the_persons_choice(tmp_path: Path) -> None:
    settings = Settings.load(tmp_path, keymap={}, theme=None)
    assert (settings.hjkl, settings.mouse) == (False, True)
    write("hjkl: true\nmouse: false\n")
    settings = Settings.load(tmp_path, keymap={}, theme=None)
    assert (settings.hjkl, settings.mouse) == (True, False)


def test_the_workspace_holds_where_the_person_says_nothing(tmp_path: Path) -> None:
    write("")
    settings = Settings.load(tmp_path, keymap={"runs.cancel": "f7"}, theme="dracula")
    assert (settings.theme, settings.keymap) == ("dracula", {"runs.cancel": "f7"})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("keymap: [", "not valid YAML"),
        ("- a", "must be a mapping"),
        ("colour: red", "colour"),
        ("ascii: maybe", "must be true or false"),
        ("hjkl: 1", "must be true or false"),
        ("mouse: [no]", "must be true or false"),
        ("theme: [x]", "must be text"),
        ("keymap: f2", "must be a mapping"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_what_is_wrong(
    tmp_path: Path, text: str, part: str
) -> None:
    path = write(text)
    with pytest.raises(ConfigurationError) as refused:
        Settings.load(tmp_path, keymap={}, theme=None)
    assert str(path) in str(refused.value)
    assert part in str(refused.value)


def test_an_unreadable_file_is_refused_in_words(tmp_path: Path) -> None:
    settings_path().mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        Settings.load(tmp_path, keymap={}, theme=None)


@pytest.mark.parametrize("terminal", ["linux", "dumb"])
def test_terminals_without_unicode_get_ascii(
    terminal: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", terminal)
    assert Settings.load(tmp_path, keymap={}, theme=None).ascii


def test_a_session_outlives_its_process_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    session = Session(session_path(tmp_path))
    session.set("script", "checks.workflow.js")
    session.save()
    again = Session(session_path(tmp_path))
    assert again.get("script") == "checks.workflow.js"
    assert again.get("missing", 3) == 3
    assert stat.S_IMODE(session_path(tmp_path).stat().st_mode) == 0o600


def test_each_workspace_has_its_own_session(tmp_path: Path) -> None:
    assert session_path(tmp_path) != session_path(tmp_path / "other")


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_session_that_cannot_be_read_counts_as_empty(tmp_path: Path, text: str) -> None:
    path = session_path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    session = Session(path)
    assert session.get("script") is None
    session.set("script", "a")
    session.save()
    assert Session(path).get("script") == "a"


def test_loading_settings_writes_nothing(tmp_path: Path) -> None:
    Settings.load(tmp_path, keymap={}, theme=None)
    assert not settings_path().exists()
    assert not session_path(tmp_path).parent.exists()


def opened(root: Path) -> Session:
    return Settings.load(root, keymap={}, theme=None).session


def unsaved(session: Session) -> list[str | None]:
    return [item["unsaved"] for item in session.get("author", {}).get("open", [])]


def keep(session: Session, text: str) -> None:
    session.set("author", {"open": [{"path": "a.workflow.js", "unsaved": text}]})
    session.save()


@pytest.mark.parametrize("known", [False, True], ids=["first start", "later start"])
def test_two_processes_keep_what_is_unsaved_apart(tmp_path: Path, known: bool) -> None:
    if known:
        session_path(tmp_path).parent.mkdir(parents=True)
    first, second = opened(tmp_path), opened(tmp_path)
    keep(second, "XYZ")
    keep(first, "abc")
    second.let_go()
    first.let_go()
    again = opened(tmp_path)
    texts = {*unsaved(again), *(text for left in again.left() for text in unsaved(left))}
    assert texts == {"abc", "XYZ"}


def test_what_a_living_process_holds_is_not_opened(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.set("screen.runs", {"filter": "x"})
    keep(first, "abc")
    second = opened(tmp_path)
    assert unsaved(second) == [None]
    assert second.get("screen.runs") == {"filter": "x"}
    assert second.left() == []


def test_what_was_left_is_held_until_it_is_let_go(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    keep(first, "abc")
    keep(second, "XYZ")
    second.let_go()
    (left,) = first.left()
    assert unsaved(left) == ["XYZ"]
    assert first.left() == []
    left.let_go()
    (left,) = first.left()
    left.let_go(delete=True)
    assert first.left() == []
