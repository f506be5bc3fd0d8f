"""Redaction: a bundle that can be given away. Values become salted hashes of the same shape.

What stays: the script, the order and kinds of frames, step ids, source positions, times, states, codes of the
engine. What goes: arguments, tasks, outputs, results, log messages, error texts, captured bytes, launch options
(they hold the stub set), reasons and reviews of people, request id, notes, and every unsalted hash of such values. The salt is made for
one export and kept nowhere, so nobody can test a guess against the hashes. Equal texts have equal hashes inside
one bundle: how a value travels through a run stays visible.

A word that stands in the script tells nothing new, so keys and step ids made of such words are kept; others
are hashed like values. The frames of a redacted bundle are chained anew over what is left of their bodies.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .. import jsontext
from ..model import Attestation, Cause, Decision, RunRecord
from .bundle import Bundle, CaptureInfo
from .frames import ChildNote, Frame, FrameKind, JournalWriter, Mark, Side

_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_CODE: Final = re.compile(r"[a-z][a-z_]{0,39}")
#: Keys of our own formats, which are in no script.
_OWN_KEYS: Final = frozenset(
    """artifactVersion artifact_version mediaType output runId status threadId sha256 size data next_offset length offset version
    name code message artifacts task""".split()  # noqa: SIM905 - a table of names reads better as text
)
#: Kinds of captured files that say nothing of what is in them.
_MEDIA_TYPES: Final = frozenset(
    """text/plain text/markdown text/csv text/html application/json application/pdf image/png image/jpeg image/gif
    image/webp image/svg+xml""".split()  # noqa: SIM905 - a table of names reads better as text
)
_STATUSES: Final = frozenset({"success", "resumed", "approved"})
_ERROR_NAMES: Final = frozenset(
    {"AgentError", "WorkflowError", "Error", "TypeError", "RangeError", "ReferenceError"}
)


def redact(bundle: Bundle, verdict: Mapping[str, Any], *, salt: bytes | None = None) -> Bundle:
    """``bundle`` without its values, carrying ``verdict``: what the exporter's replay of the whole came to.

    ``salt`` is for tests; without it a fresh one is used and forgotten.
    """
    hidden = Redactor(bundle.script, salt if salt is not None else secrets.token_bytes(32))
    captures = tuple(hidden.capture(info) for info in bundle.captures)
    bodies = {
        new.version: hidden.data(bundle.read_capture(old.version))
        for old, new in zip(bundle.captures, captures, strict=True)
    }
    writer = JournalWriter()
    return msgspec.structs.replace(
        bundle,
        record=hidden.record(bundle.record),
        frames=tuple(
            writer.frame(frame.kind, hidden.body(frame), frame.at, hidden.side(frame.side))
            for frame in bundle.frames
        ),
        marks=tuple(Mark(m.seq, m.after_frame, m.at, hidden.side(m.side)) for m in bundle.marks),
        decisions=tuple(hidden.decision(decision) for decision in bundle.decisions),
        attestations=tuple(hidden.attestation(attestation) for attestation in bundle.attestations),
        captures=captures,
        read_capture=bodies.__getitem__,
        read_options=lambda: hidden.options(bundle.record.options),
        redacted=True,
        verdict=hidden.verdict(verdict),
        notes=(f"What could not be understood is left out: {len(bundle.notes)} notes.",)
        if bundle.notes
        else (),
    )


class Redactor:
    """Replaces values by hashes under one salt. ``script`` decides which words are no secret."""

    def __init__(self, script: str, salt: bytes) -> None:
        self._salt = salt
        self._words = set(_WORD.findall(script))
        self._script = script

    # -- texts

    def _digest(self, kind: str, data: bytes) -> bytes:
        return hmac.new(self._salt, kind.encode() + b"\0" + data, hashlib.sha256).digest()

    def text(self, text: str) -> str:
        """A text of hexadecimal digits, as long as ``text`` is in characters."""
        block = self._digest("text", text.encode("utf-8", "surrogatepass")).hex()
        return (block * (len(text) // len(block) + 1))[: len(text)]

    def data(self, data: bytes) -> bytes:
        """As many bytes as ``data`` has, the same for equal data."""
        block = self._digest("data", data)
        return (block * (len(data) // len(block) + 1))[: len(data)]

    def name(self, name: str) -> str:
        """A step id, agent or key, with every word that the script does not hold replaced."""
        return (
            _WORD.sub(lambda match: self._word(match[0]), name) if self._is_plain(name) else self.text(name)
        )

    def _is_plain(self, name: str) -> bool:
        return re.fullmatch(r"[A-Za-z0-9_.:$-]{1,200}", name) is not None

    def _word(self, word: str) -> str:
        harmless = word in self._words or word in _OWN_KEYS or (len(word) <= 3 and word.isdigit())
        return word if harmless else self.text(word)

    # -- values

    def value(self, value: Any, place: str = "") -> Any:
        """JSON of the same shape: texts keep their length, numbers their digits, null stays.

        ``place`` is the key or index that holds it: there are only two booleans to tell apart, so equal ones look
        equal only where they stand under the same key.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bool):
            return bool(self._digest("bool" + place, bytes([value]))[0] & 1)
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, list | tuple):
            return [self.value(item, f"[{index}]") for index, item in enumerate(value)]
        if isinstance(value, Mapping):
            made: dict[str, Any] = {}
            for key, item in value.items():
                name = self._key(key)
                while name in made:  # short hashes may meet
                    name += "0"
                made[name] = self.value(item, key)
            return made
        return None

    def _number(self, value: int | float) -> int | float:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1.5e10 and 15000000000 are one number to a script
        digest = int.from_bytes(self._digest("number", repr(value).encode())[:8], "big")
        if isinstance(value, float):
            return digest % 1000 + 0.5
        digits = min(len(str(abs(value))), 15)
        low: int = 10 ** (digits - 1) if digits > 1 else 0
        made = low + digest % (int(10**digits) - low)
        return -made if value < 0 else made

    def _key(self, key: str) -> str:
        return key if key in _OWN_KEYS else self.name(key)

    # -- frames

    def body(self, frame: Frame) -> bytes:
        """The redacted canonical body of a frame; a body that is no JSON object becomes one that says so."""
        try:
            body = jsontext.parse(frame.body, "a frame")
        except jsontext.JsonRefused:
            body = None
        if not isinstance(body, dict):
            return jsontext.encode({"redacted": "unreadable"})
        if frame.kind is FrameKind.START:
            made = self._start(body)
        elif frame.kind is FrameKind.REQUEST:
            made = {**self._more(body), "calls": [self._call(call) for call in _dicts(body.get("calls"))]}
        elif frame.kind is FrameKind.RESPONSE:
            results = [self._result(result) for result in _dicts(body.get("results"))]
            made = {**self._more(body), "results": results}
        else:
            made = {"by": "engine" if body.get("by") == "engine" else "script", "ok": body.get("ok") is True}
            if made["ok"]:
                made["value"] = self.value(body.get("value"))
            else:
                made["error"] = self.error(body.get("error"))
        return jsontext.encode(made)

    def _more(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"more": True} if body.get("more") is True else {}

    def _start(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: body[key] for key in ("script_hash", "limits", "runtime_signature") if key in body}
        return {
            **kept,
            "agents": [self.name(str(agent)) for agent in body.get("agents") or ()],
            "args": self.value(body.get("args")),
            "options_hash": self.text(str(body.get("options_hash", ""))),
        }

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in call.items():
            if key == "id" and type(value) is int:
                made[key] = value
            elif key == "op":
                made[key] = (
                    value
                    if value in ("agent", "log", "pause", "checkpoint", "capture", "read")
                    else "unknown"
                )
            elif key in ("step_id", "agent_ref", "source_step_id"):
                made[key] = self.name(str(value))
            else:
                made[self._key(key)] = self.value(value)
        return made

    def _result(self, result: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"id": result.get("id") if type(result.get("id")) is int else 0}
        made["ok"] = result.get("ok") is True
        if not made["ok"]:
            made["error"] = self.error(result.get("error"))
        elif "artifact" in result:
            made["artifact"] = self.value(result["artifact"])
        else:
            made["value"] = self._outcome(result.get("value"))
        return made

    def _outcome(self, value: Any) -> Any:
        made = self.value(value)
        if isinstance(value, Mapping) and value.get("status") in _STATUSES:
            made["status"] = value["status"]
        return made

    def error(self, error: Any) -> dict[str, Any]:
        given = error if isinstance(error, Mapping) else {}
        name, code, message = (str(given.get(key, "")) for key in ("name", "code", "message"))
        return {
            "name": name if name in _ERROR_NAMES else self.text(name),
            "code": code if _CODE.fullmatch(code) else self.text(code),
            "message": self.text(message),
        }

    # -- what stands beside the frames

    def side(self, side: Side) -> Side:
        return msgspec.structs.replace(
            side,
            admitting=tuple(map(self.name, side.admitting)),
            readmitted=tuple(map(self.name, side.readmitted)),
            children={self.name(step): self._note(note) for step, note in side.children.items()},
        )

    def _note(self, note: ChildNote) -> ChildNote:
        return msgspec.structs.replace(
            note,
            thread_id=self._optional(note.thread_id),
            child_run_id=self._optional(note.child_run_id),
            error=self.cause(note.error),
            evidence=None if note.evidence is None else self.value(note.evidence),
            result=None if note.result is None else self._outcome(note.result),
        )

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def cause(self, cause: Cause | None) -> Cause | None:
        if cause is None:
            return None
        code = cause.code if _CODE.fullmatch(cause.code) else self.text(cause.code)
        return Cause(code, self.text(cause.message), cause.line, cause.column)

    def record(self, record: RunRecord) -> RunRecord:
        waiting = record.waiting
        return msgspec.structs.replace(
            record,
            name=self.name(record.name),
            request_id=self.text(record.request_id),
            args_hash=self.text(record.args_hash),
            identity_hash=self.text(record.identity_hash),
            configuration_revision=self.text(record.configuration_revision),
            configuration_components={},
            agents=tuple(map(self.name, record.agents)),
            options=self.options(record.options),
            cause=self.cause(record.cause),
            waiting=None
            if waiting is None
            else msgspec.structs.replace(waiting, step_id=self.name(waiting.step_id)),
            result=self.value(record.result),
            definition=self._optional(record.definition),
        )

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        agents = options.get("agents")
        return {"agents": agents if agents in ("stub", "real") else "stub", "label": "redacted"}

    def decision(self, decision: Decision) -> Decision:
        return msgspec.structs.replace(
            decision,
            step_id=self.name(decision.step_id),
            sha256=self._optional(decision.sha256),
            reason=self._optional(decision.reason),
            actor=self.value(decision.actor),
            review=self.value(decision.review),
        )

    def attestation(self, attestation: Attestation) -> Attestation:
        return msgspec.structs.replace(
            attestation,
            step_id=self.name(attestation.step_id),
            reason=self.text(attestation.reason),
            statement_hash=self.text(attestation.statement_hash),
            evidence_hash=self.text(attestation.evidence_hash),
            actor=self.value(attestation.actor),
        )

    def capture(self, info: CaptureInfo) -> CaptureInfo:
        return msgspec.structs.replace(
            info,
            step_id=self.name(info.step_id),
            source_step_id=self.name(info.source_step_id),
            path=self.text(info.path),
            version=self.text(info.version),
            media_type=info.media_type if info.media_type in _MEDIA_TYPES else "application/octet-stream",
        )

    def verdict(self, verdict: Mapping[str, Any]) -> dict[str, Any]:
        """The document of a verdict: its words and places stay, the values in it go."""
        found = verdict.get("divergence")
        made = {key: verdict[key] for key in ("verdict", "frames") if key in verdict}
        made["notes"] = []
        made["divergence"] = None
        if isinstance(found, Mapping):
            places = {key: found.get(key) for key in ("frame", "agreed", "line", "column")}
            made["divergence"] = {
                **places,
                "recorded": self.value(found.get("recorded")),
                "now": self.value(found.get("now")),
                "differences": [
                    {
                        "path": self._path(str(one.get("path", ""))),
                        "recorded": self.value(one.get("recorded")),
                        "now": self.value(one.get("now")),
                    }
                    for one in found.get("differences", ())
                ],
                "locals": None,
            }
        return made

    def _path(self, path: str) -> str:
        return "".join(
            part if part and part[0] in "[.]" and not part[1:] else self._key(part) if part else ""
            for part in re.split(r"([.\[\]])", path)
        )


def _dicts(items: Any) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def check_redacted(bundle: Bundle) -> list[str]:
    """What contradicts a redacted bundle's own claims: order, steps and positions; empty where nothing does.

    The chain is checked apart (frames.verify_chain). Positions must lie inside the script, calls must be
    numbered in order, and each response must answer a call that is open.
    """
    lines = bundle.script.split("\n")
    problems: list[str] = []
    steps: set[str] = set()
    open_calls: set[int] = set()
    last = 0
    for frame in bundle.frames[1:]:
        body = jsontext.parse(frame.body, f"frame {frame.number}")
        for position in frame.side.positions:
            if position is not None and not (
                1 <= position[0] <= len(lines) and 1 <= position[1] <= len(lines[position[0] - 1]) + 1
            ):
                problems.append(f"frame {frame.number} names a place outside the script")
        for call in body.get("calls", ()):
            step = call.get("step_id")
            if step is not None and step in steps:
                problems.append(f"frame {frame.number} asks for the step {step} a second time")
            if step is not None:
                steps.add(step)
            if "id" in call:
                if call["id"] != last + 1:
                    problems.append(f"frame {frame.number} holds call {call['id']} out of order")
                last = call["id"]
                open_calls.add(last)
        for result in body.get("results", ()):
            if result.get("id") not in open_calls:
                problems.append(f"frame {frame.number} answers a call that is not open")
            open_calls.discard(result.get("id"))
        if body.get("by") == "script" and body.get("ok") is True and open_calls:
            problems.append(f"frame {frame.number} returns while calls are open")
    return problems
