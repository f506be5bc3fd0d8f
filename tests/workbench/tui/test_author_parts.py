"""Parts of the Author screen without a screen: finding scripts, mapping lines, the check process, $EDITOR."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import SuspendNotSupported

from tests.workbench.tui.fakes import make_run, make_step
from workbench.tui.screens import author_scripts
from workbench.tui.screens.author_check_process import CheckFailed, CheckProcess, Question
from workbench.tui.screens.author_marks import MarkedRun, rows_now, run_marks
from workbench.tui.screens.author_outside import edit_outside
from workbench.tui.screens.author_scripts import ScriptRows, find_scripts
from workbench.tui.widgets.editor_marks import Mark
from workflows_core.errors import UsageError
from workflows_core.model import Cause, RunState, StepKind, StepStatus

# Finding scripts


def test_scripts_and_stub_sets_are_found_in_folders_and_nowhere_else(tmp_path: Path) -> None:
    for name in (
        "b.workflow.js",
        "A.workflow.js",
        "b.stubs.yaml",
        "plain.js",
        "sub/deep/c.workflow.js",
        ".hidden/d.workflow.js",
        "node_modules/e.workflow.js",
        "1/2/3/4/5/6/too-deep.workflow.js",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "folder.workflow.js").mkdir()
    found = find_scripts(tmp_path)
    assert [str(path) for path in found.scripts] == [
        "A.workflow.js",
        "b.workflow.js",
        "sub/deep/c.workflow.js",
    ]
    assert [str(path) for path in found.stub_sets] == ["b.stubs.yaml"]
    assert not found.cut


def test_a_search_that_finds_too_much_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(author_scripts, "LISTED", 3)
    for number in range(5):
        (tmp_path / f"{number}.workflow.js").write_text("")
    found = find_scripts(tmp_path)
    assert found.cut
    assert len(found.scripts) == 3


def test_a_folder_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    assert find_scripts(tmp_path / "gone").scripts == ()


def test_the_tree_shows_folders_the_shown_script_and_unsaved_ones() -> None:
    paths = [Path("a.workflow.js"), Path("sub/b.workflow.js"), Path("sub/c.workflow.js")]
    rows = ScriptRows(paths, current=paths[0], dirty=[paths[2]])
    lines = ["".join(span.text for span in rows.line(index, 20)) for index in range(len(rows))]
    assert lines == ["a", "sub/", "  b", "  c ●"]
    assert [rows.path(index) for index in range(4)] == [paths[0], None, paths[1], paths[2]]
    assert rows.line(0, 20)[0].tone == "accent"
    assert len({rows.row_id(index) for index in range(4)}) == 4


# Lines that moved


@pytest.mark.parametrize(
    ("then", "now", "rows"),
    [
        ("abc", "abc", {0: 0, 1: 1, 2: 2}),
        ("abc", "xabc", {0: 1, 1: 2, 2: 3}),
        ("abc", "axc", {0: 0, 2: 2}),
        ("abc", "ac", {0: 0, 2: 1}),
        ("abcd", "axbcyd", {0: 0, 1: 2, 2: 3, 3: 5}),
        ("aba", "ab", {0: 0, 1: 1}),
        ("", "a", {}),
    ],
)
def test_rows_are_followed_to_where_they_are_now(then: str, now: str, rows: dict[int, int]) -> None:
    assert dict(rows_now(list(then), list(now))) == rows


@given(st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
@settings(max_examples=150, deadline=None)
def test_rows_lead_to_equal_lines_in_the_same_order(then: list[str], now: list[str]) -> None:
    rows = rows_now(then, now)
    assert all(then[row] == now[to] for row, to in rows.items())
    targets = [rows[row] for row in sorted(rows)]
    assert targets == sorted(set(targets))


def test_of_several_steps_on_a_line_the_one_that_needs_a_look_is_shown() -> None:
    steps = [make_step(f"s{index}", status, line=2) for index, status in enumerate(StepStatus)]
    rows = {0: 0, 1: 1}
    while steps:
        shown = run_marks(make_run(steps=tuple(steps)), rows)[1]
        best = next(step for step in steps if run_marks(make_run(steps=(step,)), rows)[1] == shown)
        steps.remove(best)
        if len(steps) == 9:
            assert best.status is StepStatus.UNCERTAIN
    assert best.status in (StepStatus.COMPLETED, StepStatus.APPROVED)  # one glyph


def test_a_checkpoint_that_waits_has_the_glyph_of_approval_and_ascii_its_own() -> None:
    step = make_step("c", StepStatus.WAITING, kind=StepKind.CHECKPOINT, line=1)
    assert run_marks(make_run(steps=(step,)), {0: 3}) == {3: Mark("◆", "waiting")}
    assert run_marks(make_run(steps=(step,)), {0: 3}, unicode=False) == {3: Mark("#", "waiting")}
    assert run_marks(make_run(steps=(make_step("c", line=None),)), {0: 3}) == {}


def test_the_line_on_which_a_run_failed_is_marked_where_it_is_now() -> None:
    cause = Cause("script", "boom", 2, 5)
    view = make_run(state=RunState.FAILED, cause=cause, steps=(make_step("c", line=2),))
    assert run_marks(view, {0: 0, 1: 4}) == {4: Mark("✗", "bad")}
    assert run_marks(view, {0: 0}) == {}


def test_lines_are_mapped_again_only_when_a_text_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(
        "workbench.tui.screens.author_marks.rows_now", lambda then, now: (calls.append(1), {0: 0})[1]
    )
    marked = MarkedRun()
    assert marked.marks("x") == {}
    marked.view = make_run(steps=(make_step(line=1),))
    for text in ("a", "a", "b"):
        assert marked.marks(text) == {0: Mark("✓", "good")}
    assert len(calls) == 2


# The check process


def question(script: str, args: Any = None) -> Question:
    return Question(script, args, ("lead_agent",), 16)


@contextlib.asynccontextmanager
async def checking(command: list[str] | None = None) -> Any:
    process = CheckProcess(command)
    try:
        yield process
    finally:
        await process.close()


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() if Path("/proc").is_dir() else _signal(pid)


def _signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_the_process_answers_with_problems_and_the_bound() -> None:
    async with checking() as process:
        good = await process.ask(
            question("return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});")
        )
        assert good.problems == ()
        assert good.bound == (1, False)
        bad = await process.ask(question("return 1 +;", {"a": 1}))
        assert [(problem.rule, problem.line) for problem in bad.problems] == [("syntax", 1)]
        pid = process._child.pid
    assert not alive(pid)


async def test_a_process_that_died_is_said_and_the_next_check_starts_another() -> None:
    async with checking() as process:
        await process.ask(question("return 1;"))
        process._child.kill()
        with pytest.raises(CheckFailed, match="checking again starts it anew"):
            await process.ask(question("return 1;"))
        assert (await process.ask(question("return 1;"))).problems == ()


async def test_who_is_cancelled_leaves_the_process_alive_and_its_answers_in_order() -> None:
    async with checking() as process:
        await process.ask(question("return 1;"))
        pid = process._child.pid
        waiting = asyncio.create_task(process.ask(question("return 1 +;")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        assert (await process.ask(question("return 2;"))).problems == ()
        assert process._child.pid == pid


@pytest.mark.parametrize(
    "code",
    ["pass", "import sys; sys.stdout.buffer.write(b'\\xff\\xff\\xff\\xff'); sys.stdout.flush(); input()"],
    ids=["ends at once", "answers nonsense"],
)
async def test_a_process_that_does_not_keep_to_the_protocol_is_ended(code: str) -> None:
    async with checking([sys.executable, "-I", "-S", "-c", code]) as process:
        with pytest.raises(CheckFailed):
            await process.ask(question("return 1;"))
        assert process._child is None


async def test_a_check_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.tui.screens.author_check_process.PATIENCE_SECONDS", 0.2)
    async with checking([sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]) as process:
        with pytest.raises(CheckFailed, match="was given up"):
            await process.ask(question("return 1;"))


async def test_closing_fails_what_is_asked_and_reaps_the_process() -> None:
    process = CheckProcess([sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"])
    asked = asyncio.create_task(process.ask(question("return 1;")))
    while process._child is None:
        await asyncio.sleep(0.01)
    pid = process._child.pid
    await process.close()
    with pytest.raises(CheckFailed):
        await asked
    assert not alive(pid)
    with pytest.raises(CheckFailed, match="ended with the application"):
        await process.ask(question("return 1;"))


async def test_closing_while_the_process_is_being_started_leaves_none() -> None:
    process = CheckProcess([sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"])
    asked = asyncio.create_task(process.ask(question("return 1;")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert process._child is None
    await process.close()
    with pytest.raises(CheckFailed, match="ended with the application"):
        await asked
    assert process._child is None


async def test_files_of_the_workspace_do_not_become_modules_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    async with checking() as process:
        assert (await process.ask(question("return 1;"))).problems == ()


# $EDITOR


class SomeApp:
    """Only what edit_outside needs of an application."""

    def __init__(self, *, can: bool = True) -> None:
        self.can = can
        self.away = 0

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        if not self.can:
            raise SuspendNotSupported("no")
        self.away += 1
        yield


def outside(app: SomeApp, path: Path) -> None:
    edit_outside(app, path)  # type: ignore[arg-type]


def test_the_editor_gets_the_terminal_and_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "with space.workflow.js"
    monkeypatch.setenv(
        "EDITOR", f'{sys.executable} -c \'import sys; open(sys.argv[1], "w").write("edited")\''
    )
    app = SomeApp()
    outside(app, script)
    assert script.read_text() == "edited"
    assert app.away == 1


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("", "neither \\$VISUAL nor \\$EDITOR names an editor"),
        ("'unclosed", "cannot be read as a command"),
        ("/no/such/editor", "cannot be started: No such file"),
        (f"{sys.executable} -c 'raise SystemExit(7)'", "ended with 7"),
    ],
)
def test_an_editor_that_cannot_be_used_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, editor: str, words: str
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    with pytest.raises(UsageError, match=words):
        outside(SomeApp(), tmp_path / "a")


def test_a_terminal_that_cannot_be_handed_over_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "true")
    with pytest.raises(UsageError, match="cannot be handed"):
        outside(SomeApp(can=False), tmp_path / "a")
