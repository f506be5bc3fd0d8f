"""Going through a run for the Replay screen, without a screen."""

from __future__ import annotations

import pytest

from tests.workflows_core.journal.runs import bundle
from workbench.replaying import read_run
from workbench.travelling import Traveller
from workflows_core.worker import probe


async def test_watches_have_values_where_a_limit_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PROBE_FACTOR", 1)
    script = "const a = await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});\nfor (;;);\n"
    traveller = Traveller(await read_run(await bundle(script)))
    traveller.watches.append("a.output")
    try:
        seen = await traveller.move(lambda debugger: debugger.go_to_frame(3))
        assert seen.moment.limit is not None
        assert (seen.moment.line, seen.statements, seen.watches) == (2, 2, (("a.output", 1),))
    finally:
        await traveller.close()
