"""A bundle in which every text is hostile, through every part of the Replay screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.workbench.tui.hostile import PAYLOADS
from tests.workbench.tui.replay_support import MakeApp, bundle, enter, press, rewritten
from tests.workbench.tui.test_hostile import assert_nothing_acts
from workbench.inert import inert
from workflows_core.journal.frames import FrameKind


def _hostile(kind: FrameKind, body: Mapping[str, Any]) -> Any:
    if kind is FrameKind.RESPONSE:
        text = {f"{number} {each}": each for number, each in enumerate(_texts())}
        return {"results": [{**one, "value": {**one["value"], "output": text}} for one in body["results"]]}
    return body


def _texts() -> list[str]:
    return [each for each in PAYLOADS if each.encode("utf-8", "replace").decode() == each]


async def test_hostile_text_of_a_bundle_stays_text(replay_app: MakeApp) -> None:
    whole = bundle("complete")
    comments = "\n".join(f"// {each}" for each in _texts() if not set(each) & set("\n\r\u2028\u2029"))
    given = rewritten(whole, f"{whole.script}\n{comments}", _hostile)
    record = msgspec.structs.replace(given.record, name="\x1b[2J[bold]x[/]")
    given = msgspec.structs.replace(given, record=record, notes=tuple(_texts()))
    app = replay_app(given)
    async with app.run_test(size=(130, 60)) as pilot:
        await press(pilot, "home", "down", "down")
        text = assert_nothing_acts(app)
        assert inert("\x1b[2J[bold]x[/]") in text
        await press(pilot, "tab", "end")
        text = assert_nothing_acts(app)
        assert "[@click=app.exit]go[/]" in text
        await press(pilot, "tab", *["down"] * 5, "enter")
        assert_nothing_acts(app)
        await press(pilot, "tab", *["pagedown"] * 3)
        await press(pilot, "escape", "home", "down", "down", "F")
        assert_nothing_acts(app)
        await press(pilot, "enter")
        assert_nothing_acts(app)
        await press(pilot, "tab", "tab", "enter")
        assert app.screen.id == "first-difference"
        assert_nothing_acts(app)
        await press(pilot, "escape", "F", "down", "enter")
        await press(pilot, "ctrl+end")
        assert_nothing_acts(app)
        await press(pilot, "tab", "tab", "tab", "enter")
        assert_nothing_acts(app)
        await press(pilot, "escape", "escape")
        await press(pilot, "C")
        await enter(pilot, "evidence")
        assert_nothing_acts(app)
        await press(pilot, "escape", "home", "W")
        await enter(pilot, "evidence")
        assert_nothing_acts(app)
        await press(pilot, "escape", "v")
        assert_nothing_acts(app)
