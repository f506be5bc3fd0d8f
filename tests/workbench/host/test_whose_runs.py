"""Whose child runs a session may look at, interrupt and delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extension_api import ExtensionPrincipal
from extension_api.agent_runs import AgentRunRefused, AgentRunStatus, SessionView
from workbench.host.handles import LocalAgentRuns

from .kit import Kit, options, request

LONG = options({"step": "a", "after": 60, "reply": 1})


def handle(kit: Kit, user: str, *, admin: bool = False, mode: str = "password") -> LocalAgentRuns:
    session = SessionView("s", mode, False, "a test")
    return LocalAgentRuns(
        kit.runs, kit.configuration, ExtensionPrincipal(user, is_admin=admin), session, lambda: None
    )


@pytest.mark.parametrize(
    ("user", "more", "sees"),
    [
        ("ada", {}, True),
        ("eve", {}, False),
        ("bob", {"admin": True}, True),
        ("local", {"mode": "disabled"}, True),
    ],
)
async def test_i12_administrators_and_everybody_without_accounts_reach_all_child_runs(
    tmp_path: Path, user: str, more: dict[str, Any], sees: bool
) -> None:
    async with Kit(tmp_path) as kit:
        asked = request("a", launch=LONG)
        child = await handle(kit, "ada").admit(asked)
        other = handle(kit, user, **more)
        found = await other.find(asked.idempotency_key)
        if sees:
            assert found is not None and found.status.active
            assert (await other.interrupt(child.run_id)).status is AgentRunStatus.INTERRUPTED
            assert (await other.observe(child.run_id)).run_id == child.run_id
            assert await other.delete_runs("wr_1") == 1
            return
        assert found is None
        for refused in (other.interrupt(child.run_id), other.observe(child.run_id)):
            with pytest.raises(AgentRunRefused, match="there is no child run"):
                await refused
        await handle(kit, "ada").interrupt(child.run_id)
        assert await other.delete_runs("wr_1") == 0
