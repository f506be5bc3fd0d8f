"""What can be made from a recorded run: a stub set, and a test that fails when the script's behaviour changes."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import yaml

from workflows_core.errors import UsageError
from workflows_core.journal.bundle import Bundle
from workflows_core.journal.driving import Recorded, recorded_calls
from workflows_core.journal.frames import FrameKind, JournalBroken
from workflows_core.journal.verify import check_journal
from workflows_core.model import StepKind

from .agents.stubcheck import CODE
from .agents.stubset import STUB_FAILED, parse_stub_set, request_hash
from .inert import acts

_TEMPLATE = re.compile(r"\{\{\s*task")


def recorded(bundle: Bundle) -> list[Recorded]:
    """The calls of a run with their results. Raises UsageError where it has no values or no journal."""
    if bundle.redacted:
        raise UsageError("this bundle is redacted: its values are gone, so nothing can be made from them")
    try:
        check_journal(bundle.frames)
    except JournalBroken as error:
        raise UsageError(f"this run cannot be read as a journal: {error}") from None
    return recorded_calls(bundle.frames)


def stub_entries(bundle: Bundle, *, pinned: bool | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """One stub entry for each recorded Agent call, in order, and notes about what could not be kept.

    An entry with the hash of its request answers exactly that request and is badged as recorded. ``pinned`` says
    whether entries have it; None gives it to those that a real Agent answered.
    """
    badges = {step.step_id: step.badge for step in bundle.view().steps if step.kind is StepKind.AGENT}
    files = _files(bundle)
    entries: list[dict[str, Any]] = []
    notes: list[str] = []
    for one in recorded(bundle):
        call = one.call
        if call["op"] != "agent":
            continue
        if one.result is None:
            notes.append(f"{one.label} had no answer yet, so nothing answers it.")
            continue
        entry: dict[str, Any] = {"step": _literal(one.label), "agent": _literal(str(call["agent_ref"]))}
        real = badges.get(one.label) not in (None, "stub", "recorded")
        if pinned or (pinned is None and real):
            entry["request"] = request_hash(str(call["agent_ref"]), child_input(call))
        if one.result["ok"]:
            reply = one.result["value"].get("output")
            entry["reply"] = reply
            if "request" not in entry and _TEMPLATE.search(json.dumps(reply)):
                notes.append(f"The answer of {one.label} holds {{{{task…}}}}, which a stub set fills in.")
        else:
            error = one.result["error"]
            entry["fail"] = str(error["message"]) or "failed"
            if CODE.fullmatch(code := str(error.get("code"))) is None:
                notes.append(f"The code with which {one.label} failed is none that a stub set can say.")
            elif code != STUB_FAILED:
                entry["code"] = code
        if one.label in files:
            entry["files"] = files[one.label]
        entries.append(entry)
    return entries, notes


def child_input(call: dict[str, Any]) -> dict[str, Any]:
    """The whole input of a child run, as the engine wraps the task of a call."""
    artifacts = [{"sha256": item, "version": item} for item in call.get("artifacts", ())]
    return {"artifacts": artifacts, "task": call["task"]}


def _files(bundle: Bundle) -> dict[str, dict[str, str]]:
    """The captured files of each source step, as a stub set writes them."""
    found: dict[str, dict[str, str]] = {}
    for info in bundle.captures:
        data = bundle.read_capture(info.version)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = "base64:"
        if text.startswith("base64:"):
            text = "base64:" + base64.b64encode(data).decode("ascii")
        found.setdefault(info.source_step_id, {})[info.path] = text
    return found


def _literal(name: str) -> str:
    """``name`` as a glob that matches itself alone."""
    return re.sub(r"([*?[])", r"[\1]", name)


def stub_text(entries: list[dict[str, Any]], bundle: Bundle) -> str:
    """The stub set as YAML, in ASCII where it holds what acts on a terminal or cannot be seen.

    It is read again, so that what is written is what was recorded.
    """
    head = f"# Recorded from {_repr(bundle.run_id)[1:-1]}.\n"
    if not entries:
        return head + "[]\n"
    for text in (
        yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=100),
        yaml.safe_dump(entries, sort_keys=False, allow_unicode=False, width=100),
        "".join(f"- {json.dumps(entry)}\n" for entry in entries),
    ):
        if acts(text.replace("\n", "")):
            continue
        try:
            if parse_stub_set(head + text, "the stub set") == entries:
                return head + text
        except UsageError:
            continue
    raise UsageError("an answer of this run holds text that no stub set can say")


TEST = '''\
"""The script of a recorded run still does what it did: made by workbench export-test.

Runs without network and without a workspace. The first test replays the recorded answers and compares every
request; the second runs the script on stubs. Change SCRIPT to see what a change would do.
"""

import asyncio
import json

from workflows_core.journal.testing import frames_of, on_stubs
from workflows_core.journal.verify import verdict_document, verify

#: The run that was recorded.
RUN = {run_id}

SCRIPT = {script}

#: Journal frames: kind, body, and the source positions of the calls in it.
FRAMES = {frames}

#: What answers each Agent call.
STUBS = {stubs}

#: How the run ended: None where it had not.
END = {end}


def test_{name}_asks_what_it_asked() -> None:
    verdict = asyncio.run(verify(SCRIPT, frames_of(FRAMES, SCRIPT), edited=True))
    document = verdict_document(verdict)
    assert document["verdict"] == {verdict!r}, json.dumps(document, indent=2)


def test_{name}_ends_as_it_ended_on_stubs() -> None:
    assert asyncio.run(on_stubs(SCRIPT, frames_of(FRAMES, SCRIPT), STUBS)) == END
'''


def test_text(bundle: Bundle, verdict: str) -> str:
    """A pytest file for a run whose replay came to ``verdict``. Raises UsageError where it has no values."""
    recorded(bundle)
    if any(b'"artifact":{' in frame.body for frame in bundle.frames):
        raise UsageError("this run reads captured files, and a test file does not hold their bytes")
    entries, _ = stub_entries(bundle, pinned=False)
    last = bundle.frames[-1]
    end = json.loads(last.body) if last.kind is FrameKind.END else None
    by_script = end is not None and end.get("by") == "script"
    name = re.sub(r"\W+", "_", bundle.record.name, flags=re.ASCII).strip("_").lower() or "run"
    return TEST.format(
        run_id=_repr(bundle.run_id),
        script=_python_text(bundle.script),
        frames=_python(
            [
                [
                    frame.kind.value,
                    json.loads(frame.body),
                    [list(p) if p else None for p in frame.side.positions],
                ]
                for frame in bundle.frames
            ]
        ),
        stubs=_python(entries),
        end=_python(end if by_script else None),
        name=name,
        verdict=verdict,
    )


def _python_text(text: str) -> str:
    """A Python literal for a text; a block where that reads as it is."""
    if text.isprintable() or not text:
        return _repr(text)
    if (
        '"""' in text
        or "\\" in text
        or text.endswith('"')
        or not text.replace("\n", "").replace("\t", "").isprintable()
        or acts(text.replace("\n", "").replace("\t", ""))
    ):
        lines = text.split("\n")
        pieces = [_repr(line + "\n") for line in lines[:-1]] + ([_repr(lines[-1])] if lines[-1] else [])
        return "(\n    " + "\n    ".join(pieces) + "\n)"
    return '"""\\\n' + text + '"""'


def _python(value: Any) -> str:
    """A Python literal for a JSON value, a list with one item a line."""
    if isinstance(value, list) and value:
        return "[\n" + "".join(f"    {_repr(item)},\n" for item in value) + "]"
    return _repr(value)


def _repr(value: Any) -> str:
    """``repr`` with everything escaped that acts on a terminal or cannot be seen; Python escapes only a part."""
    return "".join(
        char if not acts(char) else f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
        for char in repr(value)
    )
