"""The sample bundles are what docs/replay.md says they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from workflows_core.journal.bundle import Bundle, open_bundle
from workflows_core.journal.debugger import Debugger, locals_document
from workflows_core.journal.preview import preview_bundle
from workflows_core.journal.verify import verify_bundle
from workflows_core.model import RunState

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "replay.md").read_text("utf-8")


def sample(name: str) -> Bundle:
    return open_bundle(ROOT / "examples" / "bundles" / f"{name}.wfrun")


@pytest.mark.parametrize("name", ["complete", "crashed", "diverged"])
def test_each_sample_is_on_the_page(name: str) -> None:
    assert f"`{name}.wfrun`" in PAGE


async def test_the_complete_one() -> None:
    bundle = sample("complete")
    assert bundle.record.state is RunState.COMPLETED
    assert (await verify_bundle(bundle)).verdict == "complete"


async def test_the_crashed_one() -> None:
    bundle = sample("crashed")
    assert bundle.record.state is RunState.RECOVERABLE
    verdict = await verify_bundle(bundle)
    assert verdict.verdict == "ends_early"
    assert verdict.notes[-1] in PAGE
    preview = await preview_bundle(bundle)
    assert [step.step_id for step in preview.reused] == ["evidence", "check-formula", "check-claims"]
    assert [step.step_id for step in preview.observed] == ["review-1"]
    debugger = await Debugger.open(bundle.script, bundle.frames)
    try:
        moment = await debugger.go_to_frame(6)
        assert moment.line == 32
        assert locals_document(moment)["review"] == {"$type": "unassigned"}
    finally:
        await debugger.close()


async def test_the_diverged_one() -> None:
    verdict = await verify_bundle(sample("diverged"))
    assert verdict.verdict == "diverged"
    found = verdict.divergence
    assert found is not None
    assert (found.frame, found.line, found.column) == (6, 32, 20)
    assert [difference.path for difference in found.differences] == ["calls[1].task.ask"]
    assert "frame 6, at 32:20, in `calls[1].task.ask`" in " ".join(PAGE.split())
