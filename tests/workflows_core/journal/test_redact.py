"""A redacted bundle holds no value of the run, and still proves what it claims."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from workflows_core.errors import UsageError
from workflows_core.journal.bundle import Bundle, open_bundle, write
from workflows_core.journal.frames import JournalWriter, verify_chain
from workflows_core.journal.redact import check_redacted, redact
from workflows_core.journal.verify import verdict_document, verify, verify_bundle
from workflows_core.jsontext import encode, parse, sha256

from .recording import Fails, value_of
from .runs import bundle, decision, members

SECRETS = [f"sk-{sha256(str(number).encode())[:20]}" for number in range(200)]
LEAKY = """\
const first = await agent({stepId: `lookup-${args.customer}`, agentRef: 'lead_agent', task: {who: args.who, deep: args.deep}});
log('looked up ' + args.logged);
try {
  await agent({stepId: 'second', agentRef: 'lead_agent', task: first.output});
} catch (error) {
  log(error.message);
}
return {answer: first.output, [args.keyed]: 1};
"""


async def leaky() -> tuple[Bundle, list[str]]:
    """A run that has secrets at every place where a value can be, and the secrets."""
    left = iter(SECRETS)
    planted: list[str] = []

    def secret() -> str:
        planted.append(next(left))
        return planted[-1]

    args: dict[str, Any] = {
        "customer": secret().replace("-", "_"),
        "who": secret(),
        "logged": secret(),
        "keyed": secret(),
        "deep": [[{"a": [secret() for _ in range(80)]}], {secret(): {secret(): secret()}}],
    }

    def answer(call: dict[str, Any]) -> Any:
        if call["step_id"] == "second":
            raise Fails(f"cannot do it with {secret()}")
        return value_of(
            {"found": [secret() for _ in range(60)], secret(): secret(), "number": 481516, "yes": True}
        )

    options = {"agents": "stub", "stubs": [{"reply": secret(), "task": secret()}], "label": secret()}
    made = await bundle(LEAKY, args, answer=answer, options=options)
    record = msgspec.structs.replace(
        made.record,
        request_id=secret(),
        name=secret(),
        cause=msgspec.structs.replace(made.record.cause, message=secret()) if made.record.cause else None,
    )
    captured = "\n".join(secret() for _ in range(20)).encode()
    (info,) = made.captures
    info = msgspec.structs.replace(
        info, version=sha256(captured), path=f"/out/{secret()}", size=len(captured)
    )
    made = msgspec.structs.replace(
        made,
        record=record,
        captures=(info,),
        read_capture=lambda version: captured,
        decisions=(decision(reason=secret(), actor={"user_id": secret()}, review={"note": secret()}),),
    )
    return made, [*planted, args["customer"]]


async def test_no_planted_secret_is_in_a_redacted_bundle() -> None:
    made, planted = await leaky()
    assert len(planted) > 170
    plain = b"\n".join(members(write(made)).values())
    assert sum(secret.encode() in plain for secret in planted) > 170
    verdict = verdict_document(await verify(made.script, made.frames))
    data = write(redact(made, verdict))
    everything = b"\n".join([*members(data).values(), *(name.encode() for name in members(data))])
    assert [secret for secret in planted if secret.encode() in everything] == []
    for secret in planted:
        for hashed in (sha256(secret.encode()), sha256(encode(secret)), sha256(encode([secret]))):
            assert hashed.encode() not in everything
    assert made.record.args_hash.encode() not in everything
    assert made.captures[0].version.encode() not in everything


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


async def test_a_redacted_bundle_carries_a_divergence_without_its_values() -> None:
    made, planted = await leaky()
    edited = LEAKY.replace("task: first.output", "task: [first.output, args.who]")
    document = verdict_document(await verify(edited, made.frames, edited=True))
    assert document["divergence"] is not None
    opened = open_bundle(write(redact(made, document)))
    found = await verify_bundle(opened)
    assert found.verdict == "diverged"
    assert found.divergence is not None and found.divergence.line == document["divergence"]["line"]
    said = encode(verdict_document(found))
    assert not [secret for secret in planted if secret.encode() in said]


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
