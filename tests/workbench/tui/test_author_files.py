"""Scripts and their files: sessions, other programs, new scripts, leaving with unsaved work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workbench.tui.author_support import (
    NARROW,
    WIDE,
    MakeApp,
    author,
    notices,
    painted,
    pane,
    ready,
    shown,
    until,
    write_elsewhere,
)
from tests.workbench.tui.fakes import SCRIPT
from workbench.settings import Session
from workbench.tui.widgets.choice import Choice
from workbench.tui.widgets.editor_form import Setting, TextBlock
from workbench.workspace import Workspace

pytestmark = pytest.mark.usefixtures("quick_checks")


async def test_what_was_open_is_open_again_with_what_was_not_saved(make_app: MakeApp, scripts: Path) -> None:
    session = Session()
    app = make_app(screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("down", "down", "right", "x")
        await pilot.press("alt+g", *'{"b": 2}', "escape")
        author(app)._scripts.list.go_to("more/second.workflow.js")
        await pilot.press("enter")
        await until(pilot, lambda: shown(app).path == Path("more/second.workflow.js"))
        await pilot.press("ctrl+pageup")
        await until(pilot, lambda: shown(app).path == Path("checks.workflow.js"))
        await until(pilot, lambda: shown(app).draft.dirty)
    assert (scripts / "checks.workflow.js").read_text() == SCRIPT

    app = make_app(screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        assert [str(file.path) for file in author(app)._column.files] == [
            "checks.workflow.js",
            "more/second.workflow.js",
        ]
        assert shown(app).path == Path("checks.workflow.js")
        assert shown(app).editor.cursor_location == (2, 2)
        assert shown(app).draft.dirty
        assert pane(app).editor.text == '{"b": 2}'
        await pilot.press("ctrl+z")
        assert shown(app).editor.text == SCRIPT
        assert not shown(app).draft.dirty


async def test_two_applications_keep_what_is_unsaved_apart_and_a_later_start_opens_both_in_turn(
    make_app: MakeApp, scripts: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "state" / "0.json"
    kept.parent.mkdir()
    first, second = Session(kept, own=True), Session(kept, own=True)
    for session, text in ((second, "XYZ"), (first, "abc")):
        app = make_app(screen="author", session=session)
        async with app.run_test(size=WIDE) as pilot:
            await ready(pilot, app)
            assert shown(app).editor.text == SCRIPT
            await pilot.press(*text)
    second.let_go()
    first.let_go()
    for text, conflict in (("abc", True), ("XYZ", False)):
        session = Session(kept, own=True)
        app = make_app(screen="author", session=session)
        async with app.run_test(size=WIDE) as pilot:
            await ready(pilot, app)
            assert shown(app).editor.text == text + SCRIPT
            assert ("has another unsaved text" in notices(app)) is conflict
            await author(app)._files.save(shown(app))
            assert not shown(app).draft.dirty
        session.let_go()
        (scripts / "checks.workflow.js").write_text(SCRIPT)


async def test_unsaved_text_outlives_its_file(make_app: MakeApp, scripts: Path) -> None:
    session = Session()
    app = make_app(screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("x")
    (scripts / "checks.workflow.js").unlink()
    app = make_app(screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        assert shown(app).editor.text == "x" + SCRIPT
        assert "unsaved text is open again" in notices(app)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: not shown(app).draft.dirty)
    assert (scripts / "checks.workflow.js").read_text() == "x" + SCRIPT


async def test_a_clean_script_is_loaded_again_when_another_program_changed_it(
    make_app: MakeApp, scripts: Path
) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("down")
        write_elsewhere(scripts / "checks.workflow.js", "// theirs\n" + SCRIPT)
        await until(pilot, lambda: shown(app).editor.text.startswith("// theirs"))
        assert shown(app).editor.cursor_location == (2, 0)
        assert not shown(app).draft.dirty
        assert "is loaded again" in notices(app)


@pytest.mark.parametrize(
    ("keys", "on_disk", "in_editor"),
    [
        (["enter"], "theirs", "x" + SCRIPT),
        (["right", "enter"], "theirs", "theirs"),
        (["right", "right", "enter"], "x" + SCRIPT, "x" + SCRIPT),
    ],
    ids=["keep editing", "reload", "replace"],
)
async def test_saving_over_a_change_of_another_program_asks(
    make_app: MakeApp, scripts: Path, keys: list[str], on_disk: str, in_editor: str
) -> None:
    path = scripts / "checks.workflow.js"
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("x")
        write_elsewhere(path, "theirs")
        await until(pilot, lambda: "what stands here is not saved" in notices(app))
        assert "changed on disk" in painted(app)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press(*keys)
        await until(pilot, lambda: app.screen is author(app) and path.read_text() == on_disk)
        await until(pilot, lambda: shown(app).editor.text == in_editor)
        if in_editor == "theirs":
            await pilot.press("ctrl+z")
            assert shown(app).editor.text == "x" + SCRIPT


async def test_a_disk_that_refuses_is_said_and_the_text_stays(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)

        def full(_descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        await pilot.press("x", "ctrl+s")
        await until(pilot, lambda: "No space left on device" in notices(app))
        assert shown(app).draft.dirty
    assert (scripts / "checks.workflow.js").read_text() == SCRIPT


async def test_leaving_with_unsaved_changes_asks(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("x", "ctrl+q")
        await until(pilot, lambda: app.screen is not author(app))
        assert "checks.workflow.js" in painted(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is author(app))
        assert app.is_running
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press("right", "enter")
        await until(pilot, lambda: not app.is_running or app._exit)
    assert (scripts / "checks.workflow.js").read_text() == "x" + SCRIPT


async def test_an_empty_workspace_offers_a_first_script(make_app: MakeApp, workspace: Workspace) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=NARROW) as pilot:
        button = author(app).query_one("#new-button", Choice)
        await until(pilot, lambda: button.display)
        assert "There is no script in this workspace yet." in painted(app)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press("enter")
        await ready(pilot, app)
        assert shown(app).path == Path("first.workflow.js")
        assert author(app).query_one("#stubs", Setting).value == "first.stubs.yaml"
    assert (workspace.root / "first.stubs.yaml").is_file()


async def test_a_new_script_never_replaces_one(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("escape", "a")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press(*"checks", "enter")
        await until(pilot, lambda: "exists already" in app.screen.query_one("#problem", TextBlock).plain)
        assert app.screen is not author(app) and not notices(app), "what was typed stays, to be put right"
    assert (scripts / "checks.workflow.js").read_text() == SCRIPT


async def test_closing_a_script_with_unsaved_changes_asks(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("x", "escape", "x")
        await until(pilot, lambda: app.screen is not author(app))
        await pilot.press("right", "right", "enter")
        await until(pilot, lambda: author(app).current is None)
        assert "No script is open." in painted(app)
        await pilot.press("enter")
        await ready(pilot, app)
        assert shown(app).editor.text == SCRIPT


async def test_a_script_opens_in_the_editor_of_the_environment(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(
        "workbench.tui.screens.author.edit_outside",
        lambda app, path: (opened.append(path), write_elsewhere(path, "from outside"))[0],
    )
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("x", "escape", "e")
        await until(pilot, lambda: shown(app).editor.text == "from outside")
    assert opened == [scripts / "checks.workflow.js"]


async def test_without_an_editor_in_the_environment_it_says_so(make_app: MakeApp, scripts: Path) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("escape", "e")
        await until(pilot, lambda: "neither $VISUAL nor $EDITOR" in notices(app))


async def test_a_file_that_is_no_text_is_refused_in_words(make_app: MakeApp, scripts: Path) -> None:
    (scripts / "a.workflow.js").write_bytes(b"\xff\xfe")
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "is not UTF-8 text" in notices(app))
        author(app)._scripts.list.go_to("checks.workflow.js")
        author(app)._scripts.list.focus()
        await pilot.press("enter")
        await ready(pilot, app)


async def test_a_script_that_another_program_wrote_is_listed_without_leaving_the_screen(
    make_app: MakeApp, scripts: Path
) -> None:
    app = make_app(screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        (scripts / "fresh.workflow.js").write_text(SCRIPT)
        await until(pilot, lambda: Path("fresh.workflow.js") in author(app)._files.found.scripts)
        await until(pilot, lambda: "fresh" in painted(app))
