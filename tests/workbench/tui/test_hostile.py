"""Invariant 13: no supplied text acts on the terminal or is read as markup, widget by widget.

Here a sample is drawn; ``test_hostile_stream`` sends all of it through every screen to a real terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from textual.pilot import Pilot

from tests.workbench.tui.fakes import (
    NOW,
    SECOND,
    FakeClient,
    FrozenClock,
    make_frames,
    make_run,
    make_step,
    screen_text,
    settle,
    until,
)
from tests.workbench.tui.hostile import PAYLOADS, SAMPLE
from workbench.inert import acts, inert
from workbench.settings import Settings
from workbench.tui.app import WorkbenchApp
from workbench.tui.context import AppContext
from workbench.tui.palette import Command, Palette
from workbench.tui.screens.dialogs import Answer, Dialog
from workbench.tui.screens.run_dialogs import ReconcileDialog, RecoverDialog
from workbench.tui.screens.runs import RunsScreen
from workbench.tui.widgets.pane import Field
from workbench.tui.widgets.run_detail import RunDetail
from workbench.workspace import Workspace
from workflows_core.engine.recovery import Preview, StepAt
from workflows_core.model import Cause, Decision, FrameView, LogLine, RunState, StepKind, StepStatus

MakeApp = Callable[..., WorkbenchApp]
TALL = (150, 145)
#: Colours and attributes, which the screens author themselves.
_SGR = re.compile(r"\x1b\[[0-9;:]*m")


def assert_nothing_acts(app: WorkbenchApp) -> str:
    """Every cell and the terminal stream it becomes hold nothing that acts. Returns what is seen."""
    console = Console(color_system="truecolor", force_terminal=True, width=400, legacy_windows=False)
    for strip in app.screen._compositor.render_strips():
        assert not acts(strip.text), strip.text
        assert not acts(_SGR.sub("", strip.render(console))), strip.text
        for segment in strip:
            assert segment.style is None or segment.style.link is None, segment
            meta = segment.style.meta if segment.style is not None else {}
            assert "@click" not in meta, segment
    return screen_text(app)


def hostile_run(payloads: Sequence[str] = SAMPLE) -> Any:
    """A run in which every text that can come from outside is hostile, one payload a row."""
    steps = tuple(
        make_step(
            payload,
            StepStatus.FAILED if n % 2 else StepStatus.COMPLETED,
            agent_ref=payload,
            badge=payload,
            thread_id=payload,
            child_run_id=payload,
            artifact_version=payload,
            input={payload: payload},
            error=Cause(payload, payload) if n % 2 else None,
            evidence={payload: [payload]},
            line=n + 1,
            kind=StepKind.CAPTURE if n % 3 == 0 else StepKind.AGENT,
        )
        for n, payload in enumerate(payloads)
    )
    frames = tuple(
        FrameView(
            n, payload if n % 5 == 0 else "request", NOW, payload, f'{{"a": "{n}"}}{payload}', payload * 3
        )
        for n, payload in enumerate(payloads)
    )
    return make_run(
        "wr_hostile",
        name="".join(payloads[:5]),
        state=RunState.FAILED,
        cause=Cause("x", "".join(payloads)),
        created_at=NOW,
        steps=steps,
        log=tuple(LogLine(NOW, payload, 1, 1, 0) for payload in payloads),
        frames=frames,
        result={payload: payload for payload in payloads},
        has_result=True,
        script="\n".join(payloads),
        parent_run_id=payloads[0],
        options={"agents": "stub", "label": payloads[-1]},
        args={payload: payload for payload in payloads},
    )


def hostile_list(payloads: Sequence[str] = SAMPLE) -> list[Any]:
    return [
        make_run(f"wr_{n:04}", name=payload, cause=Cause("x", payload), created_at=NOW - n * SECOND)
        for n, payload in enumerate(payloads, 1)
    ]


def test_i13_the_sample_is_large_and_everything_in_it_matters() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 300
    assert all(acts(payload) or any(char in payload for char in "[]{%:") for payload in PAYLOADS)


async def shown(app: WorkbenchApp, pilot: Pilot[Any], *keys: str) -> str:
    await pilot.press(*keys)
    await settle(pilot)
    return assert_nothing_acts(app)


async def test_i13_the_run_list_and_its_filter(make_app: MakeApp) -> None:
    app = make_app(FakeClient(*hostile_list()), screens={"runs": RunsScreen})
    async with app.run_test(size=TALL) as pilot:
        text = await shown(app, pilot)
        missing = [payload for payload in SAMPLE if inert(payload)[:12] not in text]
        assert missing == []
        await shown(app, pilot, "slash")
        app.screen.query_one("#runs Field", Field).value = "a\x1b[31m\u202eb"
        assert "a␛[31m\\u{202E}b" in await shown(app, pilot)


@pytest.mark.parametrize("ascii", [False, True])
async def test_i13_every_tab_of_a_run(make_app: MakeApp, ascii: bool) -> None:
    app = make_app(FakeClient(hostile_run()), screens={"runs": RunsScreen}, ascii=ascii)
    async with app.run_test(size=TALL) as pilot:
        await shown(app, pilot, "enter")
        detail = app.screen.query_one(RunDetail)
        seen = {}
        for number in range(1, 8):
            seen[detail.tab] = await shown(app, pilot, str(number))
        seen[detail.tab] = await shown(app, pilot, "7")
        assert set(seen) == {"steps", "source", "log", "journal", "artifacts", "evidence", "result"}
        for payload in SAMPLE:
            assert inert(payload) in seen["log"], payload
            if "\t" not in payload and "\n" not in payload:
                assert inert(payload) in seen["source"], payload


async def test_i13_opened_steps_and_frames(make_app: MakeApp) -> None:
    app = make_app(FakeClient(hostile_run()), screens={"runs": RunsScreen})
    async with app.run_test(size=TALL) as pilot:
        await shown(app, pilot, "enter")
        detail = app.screen.query_one(RunDetail)
        assert detail.view is not None
        detail._place().opened.update(f"{step.step_id}@1" for step in detail.view.steps)
        detail._fill()
        await shown(app, pilot)
        for _ in range(3):
            await shown(app, pilot, "pagedown")
        await shown(app, pilot, "4")
        detail._place().opened.update(str(n) for n in range(len(SAMPLE)))
        detail._fill()
        await shown(app, pilot)
        await shown(app, pilot, "end")


async def test_i13_dialogs_notices_toasts_and_palette(make_app: MakeApp) -> None:
    app = make_app(FakeClient(hostile_run()), screens={"runs": RunsScreen}, theme=SAMPLE[1])
    async with app.run_test(size=(120, 50), notifications=True) as pilot:
        await shown(app, pilot)
        chunks = [SAMPLE[start : start + 20] for start in range(0, len(SAMPLE), 20)]
        for chunk in chunks:
            app.notice(" ".join(chunk), title=" ".join(chunk), severity="warning")
        await shown(app, pilot)
        app.clear_notifications()
        text = await shown(app, pilot, "n")
        assert [payload for payload in chunks[-1] if inert(payload) not in text] == []
        await pilot.press("escape")
        everything = " ".join(SAMPLE)
        app.push_screen(Dialog(everything, everything, [Answer("a", everything)]))
        await shown(app, pilot)
        await pilot.press("escape")
        app.push_screen(Palette([Command(payload, payload, print, payload) for payload in SAMPLE]))
        await shown(app, pilot)
        await pilot.press("escape")
        await shown(app, pilot, "d")
        await pilot.press("escape")


async def test_i13_previews_reconciling_captures_and_receipts(make_app: MakeApp) -> None:
    everything = "".join(SAMPLE)
    actor = {"user_id": everything, "description": everything}
    receipts = tuple(
        Decision(
            run_id="wr_hostile",
            step_id=payload,
            attempt=1,
            decision="reject",
            sha256=payload,
            reason=payload,
            actor=actor,
            review={"coverage": 1.0, "renderer": payload},
            decided_at=NOW,
        )
        for payload in SAMPLE
    )
    steps = tuple(
        make_step(
            payload,
            StepStatus.UNCERTAIN if n % 2 else StepStatus.COMPLETED,
            kind=StepKind.AGENT if n % 2 else StepKind.CAPTURE,
            agent_ref=payload,
            child_run_id=payload,
            thread_id=payload,
            artifact_version=payload,
            input={"path": payload, "sourceStepId": payload},
            output={"size": 1, "mediaType": payload},
            error=Cause(payload, payload),
            line=n + 1,
        )
        for n, payload in enumerate(SAMPLE)
    )
    run = msgspec.structs.replace(
        hostile_run(), state=RunState.NEEDS_RECONCILIATION, steps=steps, receipts=receipts, cause=None
    )
    preview = Preview(
        reused=tuple(StepAt(payload, n + 1, n) for n, payload in enumerate(SAMPLE)),
        reasons=tuple(SAMPLE),
        compatible=False,
    )
    client = FakeClient(run, who=everything)
    client.previews["wr_hostile"] = preview
    app = make_app(client, screens={"runs": RunsScreen})
    async with app.run_test(size=TALL) as pilot:
        await shown(app, pilot, "enter")
        detail = app.screen.query_one(RunDetail)
        detail._place().opened.update(f"{payload}@1" for payload in SAMPLE)
        detail._fill()
        for _ in range(2):
            await shown(app, pilot, "pagedown")
        for key in ("home", "5", "1"):
            await shown(app, pilot, key)
        await pilot.press("S")
        await until(pilot, lambda: isinstance(app.screen, ReconcileDialog))
        await shown(app, pilot, "tab", "tab", "enter")
        await pilot.press("escape")
        client.change("wr_hostile", state=RunState.RECOVERABLE)
        await shown(app, pilot)
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, RecoverDialog))
        text = await shown(app, pilot)
        assert "cannot be recovered now" in text


async def test_i13_the_top_line_and_errors_of_the_client(tmp_path: Path, clock: FrozenClock) -> None:
    root = tmp_path / "evil\x1b]0;x\x07\u202edir"
    root.mkdir()
    client = FakeClient(make_run(), who="a\x1b[2Jda · \u202eterminal")
    client.failures["view"] = OSError("disk \x1b]52;c;QQ==\x07")
    context = AppContext(client, Workspace.find(root, root), Settings(), clock)  # type: ignore[arg-type]
    app = WorkbenchApp(context, screen="runs", screens={"runs": RunsScreen})
    async with app.run_test(size=TALL, notifications=True) as pilot:
        await shown(app, pilot)
        text = await shown(app, pilot)
        assert "a␛[2Jda" in text
        assert "disk ␛]52;c;QQ==␇" in text


async def test_i13_what_is_pasted_into_a_field(make_app: MakeApp) -> None:
    app = make_app(FakeClient(*hostile_list()), screens={"runs": RunsScreen})
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(app, pilot, "slash")
        field = app.screen.query_one("#runs Field", Field)
        for payload in PAYLOADS:
            field.value = ""
            field.insert_text_at_cursor(payload)
            assert not acts(field.value)
        await shown(app, pilot)


async def test_i13_frames_of_any_kind_and_hash(make_app: MakeApp) -> None:
    frames = tuple(
        FrameView(frame.number, "\x1bkind", frame.at, "\x9bsummary", "\x1b[2J", "\x1b\x1b\x1b")
        for frame in make_frames(3)
    )
    app = make_app(FakeClient(make_run(frames=frames)), screens={"runs": RunsScreen})
    async with app.run_test(size=(100, 30)) as pilot:
        text = await shown(app, pilot, "enter", "4", "enter")
        assert "␛[2J" in text
