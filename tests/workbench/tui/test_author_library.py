"""The library in the Author screen: saved versions are opened, launched, edited, saved and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.workbench.tui.author_support import (
    NARROW,
    WIDE,
    MakeApp,
    author,
    notices,
    painted,
    ready,
    shown,
    until,
)
from tests.workbench.tui.fakes import SCRIPT, FakeClient
from workbench.drafts import VersionDraft
from workbench.settings import Session
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.author_compare import CompareScreen, beside_each_other, compare, fits_beside
from workbench.tui.screens.author_dialogs import NameDialog, Picker
from workbench.tui.screens.author_scripts import ScriptRows, version_path
from workbench.tui.widgets.editor_form import TextBlock
from workbench.tui.widgets.pane import Field
from workflows_core.errors import StoreFailed, UsageError

pytestmark = pytest.mark.usefixtures("quick_checks")

OLDER = SCRIPT.replace("'pass'", "'fine'")


def library(*scripts: str) -> FakeClient:
    client = FakeClient()
    for number, script in enumerate(scripts):
        client.keep_version("checks", script, number)
    return client


def facts(app: WorkbenchApp) -> str:
    return author(app).query_one("#facts", TextBlock).plain


def title(app: WorkbenchApp) -> str:
    return str(author(app).query_one("#editor-pane").border_title)


async def go_to(pilot: Pilot[Any], app: WorkbenchApp, row_id: str) -> None:
    """Put the cursor of the tree on a row, and the focus on the tree."""
    tree = author(app)._scripts.list
    await until(pilot, lambda: isinstance(tree.rows, ScriptRows))
    await until(pilot, lambda: row_id in {tree.rows.row_id(at) for at in range(len(tree.rows))})
    tree.focus()
    assert tree.go_to(row_id)


async def open_version(pilot: Pilot[Any], app: WorkbenchApp, client: FakeClient, script: str) -> VersionDraft:
    (version,) = [saved for saved, text in client.versions.values() if text == script]
    await go_to(pilot, app, str(version_path(version)))
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(shown(app).draft, VersionDraft))
    await ready(pilot, app)
    draft = shown(app).draft
    assert isinstance(draft, VersionDraft) and draft.version == version.version
    return draft


async def test_the_tree_shows_the_library_and_opens_a_version(make_app: MakeApp, scripts: Path) -> None:
    client = library(OLDER)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        draft = await open_version(pilot, app, client, OLDER)
        text = painted(app)
        assert "workspace" in text and "library" in text and draft.version[:7] in text
        assert shown(app).editor.text == OLDER
        assert title(app) == f"{draft.label}  read-only until edited"
        assert facts(app).splitlines()[0] == f"Version  {draft.label}"


async def test_launching_an_opened_version_names_it_and_sends_no_script(
    make_app: MakeApp, scripts: Path
) -> None:
    client = library(OLDER)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        draft = await open_version(pilot, app, client, OLDER)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        (request,) = client.launched
        assert (request.definition, request.script, request.name) == (draft.definition, "", "checks")
        # The stub set of the script of that name answers.
        assert request.options["label"] == "checks.stubs.yaml"


async def test_an_edit_detaches_the_version_and_undo_attaches_it_again(
    make_app: MakeApp, scripts: Path
) -> None:
    client = library(OLDER)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        draft = await open_version(pilot, app, client, OLDER)
        await pilot.press("x")
        await until(pilot, lambda: f"detached from {draft.label}" in facts(app))
        assert f"{draft.label} stays as it is" in notices(app)
        assert title(app) == f"{draft.label} ●"
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        assert client.launched[0].definition is None
        assert client.launched[0].script == "x" + OLDER
        await pilot.press("ctrl+z")
        await until(pilot, lambda: "detached" not in facts(app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(client.launched) == 2)
        assert client.launched[1].definition == draft.definition
        assert client.launched[1].request_id != client.launched[0].request_id
        assert client.versions["checks", draft.version][1] == OLDER


async def test_a_version_that_cannot_be_loaded_blocks_the_launch_until_it_loads(
    make_app: MakeApp, scripts: Path
) -> None:
    client = library(OLDER)
    client.failures["definition"] = StoreFailed("the disk does not answer")
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        draft = await open_version(pilot, app, client, OLDER)
        assert "cannot be loaded" in facts(app) and "the disk does not answer" in facts(app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "Not launched" in notices(app))
        assert client.launched == []
        del client.failures["definition"]
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)
        assert client.launched[0].definition == draft.definition
        assert shown(app).editor.text == OLDER


async def test_who_writes_instead_of_a_version_that_cannot_be_loaded_launches_that(
    make_app: MakeApp, scripts: Path
) -> None:
    client = library(OLDER)
    client.failures["definition"] = StoreFailed("the disk does not answer")
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await open_version(pilot, app, client, OLDER)
        await pilot.press(*"return 1", "ctrl+r")
        await until(pilot, lambda: client.launched)
        assert (client.launched[0].definition, client.launched[0].script) == (None, "return 1")


async def test_bytes_that_are_not_what_the_hash_names_are_not_loaded(
    make_app: MakeApp, scripts: Path
) -> None:
    client = library(OLDER)
    (key,) = client.versions
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        client.versions[key] = (client.versions[key][0], "return 'another';")
        await go_to(pilot, app, str(version_path(client.versions[key][0])))
        await pilot.press("enter")
        await until(pilot, lambda: "not the one its hash names" in facts(app))
        assert shown(app).editor.text == ""
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "Not launched" in notices(app))
        assert client.launched == []


async def test_saving_as_a_version_asks_for_a_name(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        assert "Save as a version" in painted(app)
        await pilot.press("enter")
        await until(pilot, lambda: client.versions)
        (saved, script) = next(iter(client.versions.values()))
        assert (saved.name, script) == ("checks", SCRIPT)
        await until(pilot, lambda: f"equal to checks@{saved.version[:7]}" in facts(app))
        assert f"checks@{saved.version[:7]} is saved." in notices(app)
        await pilot.press("alt+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("enter")
        await until(pilot, lambda: "was saved before" in notices(app))


async def test_a_name_that_is_refused_is_put_right_in_the_dialog(make_app: MakeApp, scripts: Path) -> None:
    client = FakeClient()
    client.failures["save"] = UsageError("a name has 1 to 80 letters")
    app = make_app(client, screen="author")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press(*"x[y]", "enter")
        await until(pilot, lambda: "A name has 1 to 80 letters." in painted(app))
        assert "x[y]" in painted(app) and notices(app) == ""
        client.failures.clear()
        await until(pilot, lambda: app.screen.query_one(Field).has_focus)
        await pilot.press(*["backspace"] * 3, "enter")
        await until(pilot, lambda: [saved.name for saved, _ in client.versions.values()] == ["x"])


async def test_a_script_with_errors_is_not_saved_as_a_version(make_app: MakeApp, scripts: Path) -> None:
    (scripts / "checks.workflow.js").write_text("BAD\n")
    client = FakeClient()
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+s")
        await until(pilot, lambda: "Not saved: the script has 1 error." in notices(app))
        assert not client.versions and not isinstance(app.screen, NameDialog)


async def test_an_edited_version_becomes_the_version_that_it_is_saved_as(
    make_app: MakeApp, scripts: Path
) -> None:
    client = library(OLDER)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        draft = await open_version(pilot, app, client, OLDER)
        first = draft.version
        await pilot.press(*"// ", "alt+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("enter")
        await until(pilot, lambda: len(client.versions) == 2)
        await until(pilot, lambda: draft.attached)
        assert draft.version != first and f"Version  {draft.label}" in facts(app)
        assert not shown(app).draft.dirty


async def test_an_edited_version_is_saved_as_a_new_script_file(make_app: MakeApp, scripts: Path) -> None:
    client = library(OLDER)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await open_version(pilot, app, client, OLDER)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "there is nothing to save" in notices(app))
        await pilot.press(*"// ", "ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("enter")
        await until(pilot, lambda: "exists already" in painted(app))
        assert isinstance(app.screen, NameDialog), "what was typed stays, to be put right"
        assert (scripts / "checks.workflow.js").read_text() == SCRIPT
        await pilot.press(*"-new", "enter")
        await until(pilot, lambda: (scripts / "checks-new.workflow.js").exists())
        await until(pilot, lambda: title(app) == "checks-new.workflow.js")
        assert (scripts / "checks-new.workflow.js").read_text() == "// " + OLDER
        await until(pilot, lambda: "Version  working copy" in facts(app))


async def test_the_next_start_opens_the_version_again_with_its_edits(
    make_app: MakeApp, scripts: Path
) -> None:
    client, session = library(OLDER), Session()
    app = make_app(client, screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        draft = await open_version(pilot, app, client, OLDER)
    app = make_app(client, screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        assert title(app) == f"{draft.label}  read-only until edited"
        await pilot.press("z")
    app = make_app(client, screen="author", session=session)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        assert shown(app).editor.text == "z" + OLDER
        await until(pilot, lambda: f"detached from {draft.label}" in facts(app))


async def test_a_library_that_cannot_be_read_is_told_and_scripts_stay_usable(
    make_app: MakeApp, scripts: Path
) -> None:
    client = FakeClient()
    client.failures["library"] = StoreFailed("the disk does not answer")
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await until(pilot, lambda: "the disk does not answer" in notices(app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: client.launched)


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_two_versions_are_compared(make_app: MakeApp, scripts: Path, size: tuple[int, int]) -> None:
    client = library(OLDER)
    app = make_app(client, screen="author")
    async with app.run_test(size=size) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+c")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        assert "Compare checks.workflow.js with" in painted(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        text = painted(app)
        assert "'fine'" in text and "'pass'" in text and "- return" in text and "+ return" in text
        assert text.index("'fine'") < text.index("'pass'")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is author(app))


async def test_a_row_of_the_tree_is_compared_and_equal_texts_say_so(make_app: MakeApp, scripts: Path) -> None:
    client = library(SCRIPT)
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        ((version, _),) = client.versions.values()
        await go_to(pilot, app, str(version_path(version)))
        await pilot.press("equals_sign")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        assert "The two are equal, byte for byte." in painted(app)


async def test_i13_hostile_text_in_a_comparison_is_shown_as_symbols(make_app: MakeApp, scripts: Path) -> None:
    hostile = "return 'x\x1b]0;PWN\x07 [red]not markup[/red] \u202e';\n"
    client = library(hostile)
    (scripts / "checks.workflow.js").write_text(hostile.replace("return", "await 1; return"))
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+c")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        text = painted(app)
        assert "[red]not markup[/red]" in text
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_a_comparison_keeps_three_equal_lines_around_a_difference() -> None:
    before = "\n".join(str(number) for number in range(30))
    pairs = compare(before, before.replace("\n20\n", "\ntwenty\nmore\n"))
    assert [pair.left[1] if pair.left else None for pair in pairs] == [
        "17", "18", "19", "20", None, "21", "22", "23",
    ]  # fmt: skip
    assert [pair.right[1] if pair.right else None for pair in pairs][3:5] == ["twenty", "more"]
    assert pairs[0].skipped == 17
    assert compare(before, before) == []
    widths = {sum(len(span.text) for span in line) for line in beside_each_other(pairs, 101)[1:]}
    assert widths == {101}


def test_side_by_side_hides_no_end_of_a_line() -> None:
    short, long = compare("const a = 1;", "const a = 2;"), compare("x" * 80 + "1", "x" * 80 + "2")
    assert fits_beside(short, 120) and not fits_beside(short, 80)
    assert fits_beside(long, 180) and not fits_beside(long, 120)


async def test_saving_a_version_that_takes_long_says_so(
    make_app: MakeApp, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.tui.screens.base.BUSY_SECONDS", 0.0)
    client = FakeClient()
    client.delays["save"] = 0.3
    app = make_app(client, screen="author")
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, app)
        await pilot.press("alt+s")
        await until(pilot, lambda: isinstance(app.screen, NameDialog))
        await pilot.press("enter")
        await until(pilot, lambda: "saving the version" in painted(app))
        await until(pilot, lambda: "is saved." in notices(app))
