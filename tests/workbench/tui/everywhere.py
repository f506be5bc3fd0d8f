"""The application in which every text that can come from outside is hostile: ``python -m … START:STOP ROOT``.

The first argument says which payloads, of all of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tests.workbench.tui.host_support import HostClient, child, extension, listing, record
from tests.workbench.tui.hostile import PAYLOADS
from tests.workbench.tui.replay_support import bundle, rewritten
from tests.workbench.tui.terminal import without_blinking
from tests.workbench.tui.test_hostile import hostile_list, hostile_run
from tests.workbench.tui.test_review_bytes import hostile_client
from workbench.logs import logged
from workbench.replaying import Given
from workbench.tui.app import run_app
from workbench.workspace import Workspace
from workflows_core.errors import Conflict
from workflows_core.journal.bundle import Bundle
from workflows_core.journal.frames import FrameKind


def encodable(payloads: Sequence[str]) -> list[str]:
    """Those that have a form in UTF-8."""
    return [text for text in payloads if text.encode("utf-8", "replace").decode() == text]


def file_names(payloads: Sequence[str]) -> list[str]:
    """Names that a file system takes, with every payload that it takes in one of them."""
    texts = [text for text in encodable(payloads) if not set(text) & set("/\0\n")]
    return [f"n{start}" + "".join(texts[start : start + 8]) for start in range(0, len(texts), 8)]


def furnish(root: Path, payloads: Sequence[str]) -> None:
    """A workspace with hostile scripts, stub sets, names, and configuration."""
    texts = encodable(payloads)
    for name in file_names(payloads):
        (root / f"{name[:80]}.workflow.js").write_text("// x\n", "utf-8")
        (root / f"{name[:80]}.stubs.yaml").write_text("- reply: 1\n", "utf-8")
    lines = [f"// {text}" for text in texts if not set(text) & set("\n\r\u2028\u2029")]
    lines += [
        f"await agent({{stepId: {json.dumps(text)}, agentRef: {json.dumps(text)}, task: 1}});"
        for text in texts
    ]
    (root / "a.workflow.js").write_text("\n".join(lines), "utf-8")
    keymap = {text: text for text in texts[:40] if max(text) <= "\uffff"}  # YAML knows no pairs of surrogates
    (root / "workbench.yaml").write_text(json.dumps({"keymap": keymap}), "utf-8")


def hostile_bundle(payloads: Sequence[str]) -> Bundle:
    whole = bundle("complete")
    texts = encodable(payloads)
    answer = {f"{number} {text}": text for number, text in enumerate(texts)}

    def change(kind: FrameKind, body: Mapping[str, Any]) -> Any:
        if kind is not FrameKind.RESPONSE:
            return body
        return {"results": [{**one, "value": {**one["value"], "output": answer}} for one in body["results"]]}

    comments = "\n".join(f"// {text}" for text in texts if not set(text) & set("\n\r\u2028\u2029"))
    given = rewritten(whole, f"{whole.script}\n{comments}", change)
    named = msgspec.structs.replace(given.record, name="".join(texts)[:100])
    return msgspec.structs.replace(given, record=named, notes=tuple(texts))


def client_of_everything(workspace: Workspace, payloads: Sequence[str]) -> HostClient:
    review = hostile_client(payloads)
    client = HostClient(hostile_run(payloads), *hostile_list(payloads), *review.views.values())
    client.artifacts = review.artifacts
    client.who = "".join(payloads)
    client.listing = listing(
        *(
            extension(
                text,
                text,
                ("loaded", "failed", text)[number % 3],
                message=text,
                api=text,
                contributions={text: 1},
                plugins=[{"namespace": text, "actions": [text], "tools": [text]}],
                diagnostics=[{"level": "error", "message": text, "at": 1}],
            )
            for number, text in enumerate(payloads)
        ),
        host=[{"level": "error", "message": text, "at": 1} for text in payloads],
    )
    fields = ("session_id", "user_id", "mode", "description")
    client.handles = [{"interactive": True, **dict.fromkeys(fields, text)} for text in payloads]
    client.failures["plan_reload"] = Conflict("".join(payloads))
    texts = encodable(payloads)
    rows = [child(n, text, step_id=text, badge=text, backend=text) for n, text in enumerate(texts)]
    record(workspace, *rows, output=dict(zip(texts, texts, strict=True)))
    return client


def main(which: str, root: Path) -> int:
    first, last = (int(part) for part in which.split(":"))
    payloads = PAYLOADS[first:last]
    without_blinking()
    furnish(root, payloads)
    workspace = Workspace.find(root, root)
    client = client_of_everything(workspace, payloads)

    async def factory() -> Any:
        return client

    with logged(workspace.state_dir):
        return run_app(workspace, factory, "author", Given(hostile_bundle(payloads)))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2])))
