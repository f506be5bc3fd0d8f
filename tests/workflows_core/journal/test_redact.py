"""A redacted bundle holds no value of the run, and still proves what it claims."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from workflows_core.errors import UsageError
from workflows_core.journal.bundle import Bundle, CaptureInfo, open_bundle, write
from workflows_core.journal.frames import ChildNote, JournalWriter, Mark, Side, verify_chain
from workflows_core.journal.redact import Redactor, check_redacted, redact
from workflows_core.journal.verify import verdict_document, verify, verify_bundle
from workflows_core.jsontext import encode, parse, sha256
from workflows_core.model import Attestation, Cause, Wait

from .recording import Fails, value_of
from .runs import bundle, decision, members

LEAKY = """\
const first = await agent({stepId: `lookup-${args.customer}`, agentRef: 'lead_agent', task: {who: args.who, [args.keyed]: args.deep}});
log('looked up ' + args.logged);
try {
  await agent({stepId: 'second', agentRef: 'lead_agent', task: first.output});
} catch (error) {
  log(error.message);
}
if (args.thrown) {
  const fault = new TypeError('cannot go on with ' + args.thrown);
  fault.name = args.named;
  throw fault;
}
return {answer: first.output, [args.keyed]: args.result};
"""


class Plants:
    """Gives secrets out, each once, and knows where each was planted."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        made = f"sk_{sha256(str(len(self.places)).encode())[:20]}"
        self.places[made] = place
        return made

    def several(self, place: str, count: int) -> list[str]:
        return [self(place) for _ in range(count)]


async def leaky(*, throws: bool = False) -> tuple[Bundle, Plants]:
    """A run that has secrets at every place where a value can be, and the secrets."""
    plant = Plants()
    args: dict[str, Any] = {
        "customer": plant("part of a step id"),
        "who": plant("argument"),
        "logged": plant("log line"),
        "keyed": plant("key that the script computes"),
        "result": plant("result"),
        "deep": [
            [{"a": plant.several("deep argument", 40)}],
            {plant("key"): {plant("deep key"): plant("deep")}},
        ],
    }
    if throws:
        args |= {"thrown": plant("error message of the script"), "named": plant("error name of the script")}

    def answer(call: dict[str, Any]) -> Any:
        if call["step_id"] == "second":
            raise Fails(f"cannot do it with {plant('error message of an Agent')}")
        found = plant.several("output", 40)
        return value_of({"found": found, plant("output key"): plant("output"), "number": 481516, "yes": True})

    options = {
        "agents": "stub",
        "stubs": [
            {"step": plant("stub step"), "task": plant("stub task"), "reply": plant("stub reply")},
            {"fail": plant("stub failure"), "files": {plant("stub file name"): plant("stub file")}},
        ],
        "label": plant("label of the stub set"),
    }
    made = await bundle(LEAKY, args, answer=answer, options=options)

    def note() -> ChildNote:
        return ChildNote(
            thread_id=plant("thread"),
            child_run_id=plant("child run"),
            badge="stub",
            error=Cause("agent_failed", plant("error of a child")),
            evidence={plant("evidence key"): [plant("evidence")]},
            result={"output": plant("undelivered output"), "status": "success"},
        )

    side = Side(
        admitting=(plant("step of an intent"),),
        readmitted=(plant("step admitted again"),),
        children={plant("step of a child"): note()},
    )
    frames = tuple(
        msgspec.structs.replace(
            frame,
            side=msgspec.structs.replace(frame.side, children={"second": note()}, admitting=("second",)),
        )
        if frame.number == 2
        else frame
        for frame in made.frames
    )
    record = msgspec.structs.replace(
        made.record,
        request_id=plant("request id"),
        name=plant("name of the run"),
        definition=f"{plant('name of a version')}@abcdef0",
        agents=("lead_agent", plant("name of an agent")),
        cause=Cause("owner_gone", plant("cause")),
        waiting=Wait("pause", plant("step of a wait"), 1, 9_000),
        configuration_components={plant("part of the configuration"): plant("digest of a part")},
    )
    captured = "\n".join(plant.several("captured bytes", 30)).encode()
    info = CaptureInfo(
        step_id=plant("step of a capture"),
        attempt=1,
        source_step_id=plant("source of a capture"),
        path=f"/out/{plant('captured path')}",
        version=sha256(captured),
        media_type=f"text/{plant('media type')}",
        size=len(captured),
        captured_at=9,
    )
    made = msgspec.structs.replace(
        made,
        record=record,
        frames=frames,
        marks=(Mark(0, 2, 5, side),),
        captures=(info,),
        read_capture=lambda version: captured,
        decisions=tuple(
            decision(
                step_id=plant("decided step"),
                attempt=attempt,
                reason=plant("reason of a decision"),
                actor={"user_id": plant("actor"), plant("key of an actor"): plant("session")},
                review={"note": plant("review"), "parts": plant.several("part of a review", 4)},
            )
            for attempt in (1, 2, 3)
        ),
        attestations=tuple(
            Attestation(
                run_id=made.run_id,
                step_id=plant("attested step"),
                attempt=attempt,
                outcome="failed",
                reason=plant("reason of an attestation"),
                statement_hash=plant("statement"),
                evidence_hash=plant("evidence hash"),
                actor={"user_id": plant("attesting person"), "note": [plant("note of an attestation")]},
                settles=True,
                attested_at=8,
            )
            for attempt in (1, 2, 3)
        ),
        notes=(f"a part that is not understood: {plant('note of the bundle')}",),
    )
    return made, plant


def found_in(data: bytes, plant: Plants) -> set[str]:
    """The places whose secrets stand in a bundle, in the names of its members included."""
    parts = members(data)
    whole = b"\n".join([*parts.values(), *(name.encode() for name in parts)])
    return {place for secret, place in plant.places.items() if secret.encode() in whole}


@pytest.mark.parametrize("throws", [False, True])
async def test_no_planted_secret_is_in_a_redacted_bundle(throws: bool) -> None:
    made, plant = await leaky(throws=throws)
    assert len(plant.places) >= 200 and len(set(plant.places.values())) >= 50
    missing = {"result"} if throws else set()
    assert found_in(write(made), plant) | missing == set(plant.places.values())
    verdict = verdict_document(await verify(made.script, made.frames))
    data = write(redact(made, verdict))
    assert found_in(data, plant) == set()
    everything = b"\n".join(members(data).values())
    for secret in plant.places:
        for hashed in (sha256(secret.encode()), sha256(encode(secret)), sha256(encode([secret]))):
            assert hashed.encode() not in everything
    assert made.record.args_hash.encode() not in everything
    assert made.captures[0].version.encode() not in everything


async def test_every_secret_is_gone_where_the_verdict_is_a_divergence() -> None:
    made, plant = await leaky()
    edited = LEAKY.replace("task: first.output", "task: [first.output, args.who, args]")
    document = verdict_document(await verify(edited, made.frames, edited=True))
    document["notes"] = [f"said of {plant('note of the verdict')}"]
    document["divergence"]["locals"] = {plant("name of a variable"): plant("variable")}
    data = write(redact(made, document))
    assert found_in(data, plant) == set()
    found = (await verify_bundle(open_bundle(data))).divergence
    assert found is not None and found.line == document["divergence"]["line"]


async def test_a_redacted_bundle_proves_chain_order_steps_and_positions() -> None:
    made, _ = await leaky()
    verdict = verdict_document(await verify(made.script, made.frames))
    opened = open_bundle(write(redact(made, verdict)))
    assert opened.redacted
    verify_chain(opened.frames)
    assert check_redacted(opened) == []
    before, after = made.view(), opened.view()
    assert [step.kind for step in after.steps] == [step.kind for step in before.steps]
    assert [(step.line, step.column) for step in after.steps] == [(s.line, s.column) for s in before.steps]
    assert after.steps[1].step_id == "second"
    assert after.steps[0].step_id.startswith("lookup-")
    assert len(after.steps[0].step_id) == len(before.steps[0].step_id)
    assert [step.status for step in after.steps] == [step.status for step in before.steps]
    found = await verify_bundle(opened)
    assert found.verdict == "complete"
    assert "redacted and was not executed" in found.notes[-1]


async def test_the_keys_of_every_call_stay() -> None:
    script = "const read = (a) => readArtifact(a); return read({artifactVersion: 'v'});"
    made = await bundle(script, {}, answer=lambda call: 1)
    hidden = redact(made, {"verdict": "complete", "frames": 1})
    keys = [list(parse(each.frames[1].body)["calls"][0]) for each in (made, hidden)]
    assert keys[0] == keys[1] and "artifact_version" in keys[0]


async def test_redaction_keeps_the_shape_and_shows_equal_texts_as_equal() -> None:
    made, _ = await leaky()
    hidden = redact(made, {"verdict": "complete", "frames": len(made.frames)})
    for old, new in zip(made.frames, hidden.frames, strict=True):
        assert _shape(parse(old.body)) == _shape(parse(new.body))
    output = parse(hidden.frames[2].body)["results"][0]["value"]["output"]
    second = parse(hidden.frames[3].body)["calls"][-1]["task"]
    assert output == second
    again = redact(made, {"verdict": "complete", "frames": 1})
    assert again.frames[1].body != hidden.frames[1].body


def test_a_number_is_one_number_however_it_is_written() -> None:
    hidden = Redactor("", b"salt")
    assert hidden.value(1.5e10) == hidden.value(15_000_000_000)
    assert hidden.value(-2.0) == hidden.value(-2)
    assert hidden.value(0.0) == hidden.value(-0.0)
    assert hidden.value(1e300) == hidden.value(int(1e300))


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return (
            [_shape(value[key]) for key in value]
            if "redacted" in value
            else sorted(json.dumps(_shape(item)) for item in value.values())
        )
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return len(value) if isinstance(value, str) else type(value).__name__


async def test_a_redacted_bundle_that_was_changed_is_found() -> None:

    made, _ = await leaky()
    hidden = redact(made, verdict_document(await verify(made.script, made.frames)))
    with pytest.raises(UsageError, match="redacted"):
        await verify_bundle(hidden, "return 1;")
    frames = [frame for frame in hidden.frames if frame.number != 2]
    broken = await verify_bundle(msgspec.structs.replace(hidden, frames=tuple(frames)))
    assert broken.verdict == "incompatible"
    writer = JournalWriter()
    again = tuple(writer.frame(f.kind, f.body, f.at, f.side) for f in frames)
    broken = await verify_bundle(msgspec.structs.replace(hidden, frames=again))
    assert broken.verdict == "incompatible"
    nothing = await verify_bundle(msgspec.structs.replace(hidden, verdict=None))
    assert nothing.verdict == "incompatible"
