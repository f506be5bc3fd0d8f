"""The application with the real engine, on the terminal of this process: ``python -m … ROOT [job]``.

With ``job`` a text, an image and a document wait one after the other, else one output of an Agent.
"""

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


JOB = (
    "const made = await agent({stepId: 'made', agentRef: 'lead_agent', task: {}});\n"
    + "".join(
        f"const {name} = await captureArtifact({{stepId: '{name}', sourceStepId: 'made', path: '{path}'}});\n"
        f"await humanCheckpoint({{stepId: '{name}-review', sourceStepId: '{name}', "
        f"artifactVersion: {name}.artifactVersion}});\n"
        for name, path in (("text", "report.md"), ("image", "label.png"), ("document", "label.pdf"))
    )
    + "return await agent({stepId: 'letter', agentRef: 'lead_agent', task: {}, artifacts: [text.artifactVersion]});\n"
)


async def client_at_the_checkpoint(workspace: Workspace, script: str) -> Client:
    client = await Client.open(workspace, host="required")
    launched = await client.launch(
        LaunchRequest(script=script, args={}, name="checks", request_id="one", options=workspace.options())
    )
    while (await client.summary(launched.run_id)).state is not RunState.WAITING_APPROVAL:
        await asyncio.sleep(0.01)
    return client


if __name__ == "__main__":
    root = Path(sys.argv[1])
    workspace = Workspace.find(root, root)
    script = JOB if sys.argv[2:] == ["job"] else SCRIPT
    raise SystemExit(run_app(workspace, lambda: client_at_the_checkpoint(workspace, script), "review"))
