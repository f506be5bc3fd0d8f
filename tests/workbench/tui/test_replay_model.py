"""What the Replay screen says of a run, and going through it without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.workbench.tui.replay_support import bundle
from workbench.replaying import Opened, read_run, recovery_pieces, verdict_pieces
from workbench.travelling import Traveller
from workflows_core.engine.recovery import Preview, StepAt
from workflows_core.errors import UsageError
from workflows_core.journal.frames import FrameKind
from workflows_core.model import RunState


def said(pieces: list[tuple[str, str]]) -> str:
    return "".join(text for text, _ in pieces)


def changed(opened: Opened, state: RunState, **preview: Any) -> Opened:
    record = msgspec.structs.replace(opened.bundle.record, state=state)
    script = opened.bundle.script + "\nawait humanCheckpoint({ stepId: 'confirm' });"
    given = msgspec.structs.replace(opened.bundle, record=record, script=script)
    return msgspec.structs.replace(opened, bundle=given, preview=Preview(**preview))


async def test_recovery_in_one_line() -> None:
    opened = await read_run(bundle("crashed"))
    reused = tuple(StepAt(f"s{number}", None, None) for number in range(5))
    uncertain = (StepAt("formula-2", 6, 11),)
    made = changed(
        opened, RunState.RECOVERABLE, reused=reused, uncertain=uncertain, compatible=None, reasons=()
    )
    assert said(recovery_pieces(made)) == (
        "5 reused · 1 uncertain at 6:11 formula-2 · then 1 checkpoint. "
        "Recover will stop at formula-2 until someone settles it"
    )
    refused = changed(opened, RunState.RECOVERABLE, compatible=False, reasons=("a cancel is recorded",))
    assert said(recovery_pieces(refused)) == (
        "then 1 checkpoint. It cannot be recovered here. A cancel is recorded"
    )
    assert said(recovery_pieces(changed(opened, RunState.FAILED))) == "none needed: the run is failed"


async def test_frames_have_their_steps_places_and_times() -> None:
    opened = await read_run(bundle("crashed"))
    assert [frame.kind for frame in opened.frames[:3]] == [
        FrameKind.START,
        FrameKind.REQUEST,
        FrameKind.RESPONSE,
    ]
    assert opened.frames[3].labels == ("check-formula", "check-claims")
    assert opened.frames[4].labels == ("check-claims",)
    assert [opened.frame_place(number) for number in (0, 3, 4)] == [None, (18, 9), (18, 9)]
    assert opened.frames[0].took is None and opened.frames[2].took == 402_996 + 85
    assert opened.ending == "ends here: recoverable"
    assert (await read_run(bundle("complete"))).ending == ""


async def test_a_verdict_in_one_line() -> None:
    opened = await read_run(bundle("diverged"))
    assert said(verdict_pieces(opened)) == "✗ diverged at frame 6, 32:20"
    assert said(verdict_pieces(opened, unicode=False)).startswith("x diverged")
    found = opened.verdict.divergence
    assert found is not None and found.locals is not None and found.locals["reviews"] == 1


@pytest.fixture
async def traveller() -> AsyncIterator[Traveller]:
    made = Traveller(await read_run(bundle("complete")))
    yield made
    await made.close()


async def test_a_cancelled_move_ends_its_worker_and_the_next_goes_on_from_there(traveller: Traveller) -> None:
    first = await traveller.move(lambda debugger: debugger.go_to_statement(5))
    begun = asyncio.Event()

    async def lasting(debugger: Any) -> None:
        begun.set()
        await asyncio.sleep(600)

    task = asyncio.create_task(traveller.move(lasting))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not traveller.running
    after = await traveller.move(lambda debugger: debugger.step())
    assert after.moment.statement == first.moment.statement + 1


async def test_watches_are_looked_up_after_each_move(traveller: Traveller) -> None:
    traveller.watches.append("product + '!'")
    seen = await traveller.move(lambda debugger: debugger.go_to_frame(3))
    assert seen.watches == (("product + '!'", "Hand soap!"),)
    assert await traveller.breakable(30) == 31
    assert await traveller.breakable(10_000) is None


async def test_what_cannot_be_run_is_refused_in_words() -> None:
    whole = bundle("complete")
    opened = await read_run(msgspec.structs.replace(whole, frames=whole.frames[1:]))
    assert opened.verdict.verdict == "incompatible" and opened.view is None
    with pytest.raises(UsageError, match="its script is not run"):
        await Traveller(opened).move(lambda debugger: debugger.step())
