"""The lines of the Host screen: long events, and text that tries to act on the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workbench.tui.fakes import (
    NOW,
    settle,
)
from tests.workbench.tui.host_support import (
    HostClient,
)
from tests.workbench.tui.hostile import PAYLOADS
from tests.workbench.tui.test_hostile import assert_nothing_acts
from workbench.hostview import Diagnostic, ExtensionUse, HostEvent, HostView, SessionUse
from workbench.hostview_assembly import CHANGED, AgentUse, Change
from workbench.hostview_limits import LimitUse
from workbench.hostview_stores import StoreFile
from workbench.inert import acts
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.host import HostScreen
from workbench.tui.widgets import host_rows
from workbench.tui.widgets.host_blocks import BlockRows
from workbench.tui.widgets.host_detail import SECTIONS as SECTIONS_OF_SCREEN
from workbench.tui.widgets.host_detail import HostDetail, Told
from workbench.tui.widgets.host_figures import agent_blocks, limit_blocks
from workbench.tui.widgets.host_rows import event_blocks, extension_blocks, session_blocks, store_blocks

MakeApp = Callable[..., WorkbenchApp]


def hostile_view(payloads: Sequence[str]) -> HostView:
    """A host in which every text that can come from outside is hostile."""
    said = [Diagnostic("error", payload, NOW) for payload in payloads]
    return HostView(
        own=False,
        owner_pid=1,
        mode="password",
        at=NOW,
        extensions=[
            ExtensionUse(
                payload,
                payload,
                payload if n % 3 == 0 else "failed",
                payload,
                api=payload,
                contributions={payload: 1},
                plugins=[{"namespace": payload, "actions": [payload], "tools": [payload]}],
                diagnostics=[said[n]] * 4,
            )
            for n, payload in enumerate(payloads)
        ],
        older=[(1, payloads)],
        host=said,
        sessions=[SessionUse(payload, payload, payload, payload, expires_at=NOW) for payload in payloads],
        agents=[
            AgentUse(
                payload,
                payload,
                comparison=CHANGED,
                fingerprint=payload,
                components={payload: payload},
                changes=[Change(payload, "changed", payload)] * 8,
                badge=payload,
                before=NOW,
            )
            for payload in payloads
        ],
        limits=[LimitUse(payload, 1, payload, payload, used=1, by=payload) for payload in payloads],
        stores=[StoreFile(payload, Path(payload.replace("\0", "")), 1, payload) for payload in payloads],
        events=[
            HostEvent(
                payload,
                n,
                payload,
                payload,
                payload,
                payload,
                payload,
                payload,
                payload,
                payload if n % 2 else json.dumps([payload]),
                json.dumps({payload: payload, "status": payload}),
                NOW,
            )
            for n, payload in enumerate(payloads)
        ],
        problems={name: "".join(payloads) for name, _ in SECTIONS_OF_SCREEN},
    )


async def test_i13_hostile_text_in_every_section(make_app: MakeApp) -> None:
    """A part of the sample, in a terminal that is tall enough to show every line of it."""
    app = make_app(HostClient(), screens={"host": HostScreen}, screen="host")
    payloads = PAYLOADS[::24]
    told = [Told(NOW, payload, payload, "bad") for payload in payloads]
    async with app.run_test(size=(100, 120)) as pilot:
        await settle(pilot)
        detail = app.screen.query_one(HostDetail)
        for name, _title in SECTIONS_OF_SCREEN:
            detail.go_to(name)
            detail.show(hostile_view(payloads), told)
            detail.open_current()
            await pilot.pause()
            assert_nothing_acts(app)


@pytest.mark.parametrize("width", [24, 90])
def test_i13_every_row_of_the_whole_sample_is_inert(width: int) -> None:
    view = hostile_view(PAYLOADS)
    for blocks in (
        extension_blocks(view, width),
        session_blocks(view, width),
        store_blocks(view, width),
        event_blocks(view, width),
        agent_blocks(view, width),
        limit_blocks(view, width),
    ):
        for block in blocks:
            for line in (block.head, *block.body, *block.opened()):
                for span in line:
                    assert not acts(span.text), span


def test_events_are_laid_out_only_when_they_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def pretty(value: object) -> list[str]:
        made.append(value)
        return ["{", "}"]

    monkeypatch.setattr(host_rows, "pretty", pretty)
    blocks = event_blocks(hostile_view(PAYLOADS[:20]), 90)
    assert len(BlockRows(blocks)) == 20 and made == []
    BlockRows(blocks, {blocks[3].id})
    assert made


def test_a_long_event_is_cut_off_where_it_is_shown_and_copied_whole() -> None:
    content = json.dumps({"text": "x" * 40_000})
    event = hostile_view(PAYLOADS[:1]).events[0]._replace(content=content)
    [block] = event_blocks(replace(hostile_view(PAYLOADS[:1]), events=[event]), 90)
    assert "copying gives all of it" in block.opened()[-1][0].text
    assert sum(len(span.text) for line in block.opened() for span in line) < 20_000
    assert "x" * 40_000 in BlockRows([block]).copied(0)[1]
