"""Bundles made without an engine, with everything that a run can leave behind."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from workflows_core.journal.archive import manifest_hash
from workflows_core.journal.bundle import Bundle, CaptureInfo, versions_here
from workflows_core.journal.frames import ChildNote, Frame, JournalWriter, Mark, Side
from workflows_core.jsontext import encode, parse, sha256
from workflows_core.limits import Limits
from workflows_core.model import Cause, Decision, RunRecord, RunState, Wait

from .recording import Answer, echo, record

SCRIPT = """\
const evidence = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: {product: args.product}});
const both = await parallel(['one', 'two'].map((name) => () =>
  agent({stepId: `check-${name}`, agentRef: 'lead_agent', task: {name, about: evidence.output.product}})));
log(`checked ${evidence.output.product}`);
return {verdicts: both.map((one) => one.output.about)};
"""
CAPTURED = b"# Evidence\nall of it\n"


async def bundle(
    script: str = SCRIPT,
    args: Any = None,
    *,
    answer: Answer = echo,
    rounds: int = 10_000,
    state: RunState = RunState.COMPLETED,
    options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Bundle:
    """A run of ``script`` as a bundle, with a mark, a capture and a decision beside its frames."""
    given = {"product": "Soap"} if args is None else args
    frames = await record(script, given, answer=answer, rounds=rounds)
    version = sha256(CAPTURED)
    note = ChildNote(thread_id="wf_1", child_run_id="ar_1", badge="stub", started_at=2, finished_at=3)
    whole = dict(
        options or {"agents": "stub", "stubs": [{"reply": "x"}], "stubs_hash": "h", "label": "s.yaml"}
    )
    values: dict[str, Any] = {
        "record": run_record(script, given, frames, state, whole),
        "script": script,
        "frames": tuple(frames),
        "marks": (Mark(0, 2, 5, Side(children={"evidence": note})),),
        "decisions": (decision(),),
        "attestations": (),
        "captures": (
            CaptureInfo(
                step_id="evidence",
                attempt=1,
                source_step_id="evidence",
                path="report.md",
                version=version,
                media_type="text/markdown",
                size=len(CAPTURED),
                captured_at=9,
            ),
        ),
        "read_capture": {version: CAPTURED}.__getitem__,
        "read_options": lambda: whole,
        "versions": versions_here(),
    }
    return Bundle(**(values | changes))


def run_record(
    script: str, args: Any, frames: Sequence[Frame], state: RunState, options: Mapping[str, Any]
) -> RunRecord:
    end = parse(frames[-1].body)
    return RunRecord(
        run_id="wr_0123456789abcdef",
        owner="os:1",
        request_id="req_1",
        name="checks",
        state=state,
        revision=4,
        created_at=1_000,
        since=2_000,
        last_progress=2_000,
        script_hash=sha256(script.encode()),
        args_hash=sha256(encode(args)),
        identity_hash=sha256(b"identity"),
        configuration_revision="c",
        runtime_signature="r",
        agents=("lead_agent",),
        options={key: options[key] for key in ("agents", "label") if key in options},
        limits=Limits(),
        cause=None if state is RunState.COMPLETED else Cause("owner_gone", "process 7 ended"),
        waiting=None if state is RunState.COMPLETED else Wait("pause", "evidence", 1, 9_000),
        result=end.get("value"),
        has_result="value" in end,
    )


def decision(**changes: Any) -> Decision:
    values: dict[str, Any] = {
        "run_id": "wr_0123456789abcdef",
        "step_id": "evidence",
        "attempt": 1,
        "decision": "approve",
        "sha256": sha256(b"x"),
        "reason": None,
        "actor": {"user_id": "os:1"},
        "review": {"coverage": 1},
        "decided_at": 7,
    }
    return Decision(**(values | changes))


def comparable(bundle: Bundle) -> dict[str, Any]:
    """Everything of a bundle as plain values, its loaders called."""
    plain: dict[str, Any] = msgspec.to_builtins(
        {
            key: value
            for key, value in msgspec.structs.asdict(bundle).items()
            if key not in ("read_capture", "read_options", "exported_at")
        }
    )
    plain["bodies"] = [bundle.read_capture(info.version) for info in bundle.captures]
    plain["options"] = dict(bundle.read_options())
    return plain


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as container:
        return {name: container.read(name) for name in container.namelist()}


def zipped(parts: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as container:
        for name, data in parts:
            container.writestr(zipfile.ZipInfo(name), data, compression)
    return file.getvalue()


def changed(data: bytes, *, manifest: Mapping[str, Any] | None = None, **new: bytes | None) -> bytes:
    """A bundle with members replaced (None: left out) and a manifest that lists them truthfully.

    Keys name members with ``__`` for the dot. ``manifest`` overrides parts of the manifest at last.
    """
    parts = members(data)
    stated = parse(parts.pop("manifest.json"))
    for name, body in new.items():
        name = name.replace("__", ".")
        if body is None:
            del parts[name]
        else:
            parts[name] = body
    stated["members"] = {name: {"bytes": len(b), "sha256": sha256(b)} for name, b in parts.items()}
    stated |= manifest or {}
    stated["hash"] = manifest_hash(stated)
    stated |= {key: value for key, value in (manifest or {}).items() if key == "hash"}
    return zipped([("manifest.json", encode(stated)), *parts.items()])


def chain_again(frames: Sequence[Frame]) -> list[Frame]:
    writer = JournalWriter()
    return [writer.frame(frame.kind, frame.body, frame.at, frame.side) for frame in frames]
