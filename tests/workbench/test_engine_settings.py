"""The engine's settings edited under a living owner: a launch must not be recorded with what it does not run under."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.errors import NotPermitted

YAML = "plugins:\n  - name: workflows\n    use: workflows_core.extension:install\n    config: {{timeout_seconds: {0}}}\n"


async def test_a_launch_after_the_engines_settings_were_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "workbench.yaml"
    path.write_text(YAML.format(300))
    workspace = Workspace.find(tmp_path, tmp_path)

    def launch(request_id: str) -> LaunchRequest:
        return LaunchRequest(
            script="return 1;", args={}, name="t", request_id=request_id, options=workspace.options()
        )

    client = await Client.open(workspace, host="required")
    try:
        await client.launch(launch("before"))
        await client.wait_idle()
        path.write_text(YAML.format(30))
        with pytest.raises(NotPermitted, match=r"settings in workbench\.yaml changed"):
            await client.launch(launch("edited"))
        path.write_text(YAML.format(300))
        await client.launch(launch("restored"))
        await client.wait_idle()
        assert {run.request_id for run in await client.runs()} == {"before", "restored"}
    finally:
        await client.close()
