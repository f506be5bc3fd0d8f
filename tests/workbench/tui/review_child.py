"""The application with the real engine, on the terminal of this process: ``python -m … ROOT``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from workbench.client import Client
from workbench.tui.app import run_app
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.model import RunState

SCRIPT = """\
const evidence = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: {product: 'soap'}});
await humanCheckpoint({
  stepId: 'evidence-review', sourceStepId: 'evidence', artifactVersion: evidence.artifactVersion,
});
await pause({stepId: 'hold'});
return (await agent({stepId: 'report', agentRef: 'lead_agent', task: evidence.output})).output;
"""


async def client_at_the_checkpoint(workspace: Workspace) -> Client:
    client = await Client.open(workspace, host="required")
    launched = await client.launch(
        LaunchRequest(script=SCRIPT, args={}, name="checks", request_id="one", options=workspace.options())
    )
    while (await client.summary(launched.run_id)).state is not RunState.WAITING_APPROVAL:
        await asyncio.sleep(0.01)
    return client


if __name__ == "__main__":
    root = Path(sys.argv[1])
    workspace = Workspace.find(root, root)
    raise SystemExit(run_app(workspace, lambda: client_at_the_checkpoint(workspace), "review"))
