"""What is made from a recorded run says exactly what was recorded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflows_core.journal.recording import Fails, value_of
from tests.workflows_core.journal.runs import CAPTURED, bundle
from workbench import recordings
from workbench.agents.stubset import StubSet, parse_stub_set, request_hash
from workbench.recordings import child_input, stub_entries, stub_text, test_text
from workflows_core.errors import UsageError
from workflows_core.journal.driving import Recorded, recorded_calls
from workflows_core.journal.redact import redact

SCRIPT = """\
const one = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: {n: 1}});
try { await agent({stepId: 'second', agentRef: 'lead_agent', task: one.output}); } catch (e) { log(e.message); }
return 1;
"""


def answer(call: dict[str, Any]) -> Any:
    if call["step_id"] == "second":
        raise Fails("cannot")
    return value_of({"deep": [1, 2.5, None, True, "yes", "1e3", "", "a: b\n# c", "ü\u2028"]})


async def test_answers_failures_and_files_become_entries() -> None:
    made = await bundle(SCRIPT, {}, answer=answer, marks=())
    entries, notes = stub_entries(made)
    assert notes == []
    assert [(entry["step"], entry.get("fail"), entry.get("code")) for entry in entries] == [
        ("evidence", None, None),
        ("second", "cannot", "agent_failed"),
    ]
    assert entries[0]["files"] == {"report.md": CAPTURED.decode()}
    assert parse_stub_set(stub_text(entries, made), "x") == entries
    assert all("request" not in entry for entry in entries)


async def test_a_failure_keeps_its_code_where_that_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await bundle(SCRIPT, {}, answer=answer)
    entries, _ = stub_entries(made, pinned=True)
    again = StubSet(entries).entries[1].answer(None, 0)
    assert again is not None and (again.error_code, again.error_message) == ("agent_failed", "cannot")

    def known(code: str) -> tuple[list[dict[str, Any]], list[str]]:
        def calls(frames: Any) -> list[Recorded]:
            error = {"code": code, "message": "cannot", "name": "AgentError"}
            return [
                msgspec.structs.replace(one, result={**one.result, "error": error})
                if one.result is not None and not one.result["ok"]
                else one
                for one in recorded_calls(frames)
            ]

        monkeypatch.setattr(recordings, "recorded_calls", calls)
        return stub_entries(made)

    assert "code" not in known("stub_failed")[0][1]
    entries, notes = known("no code\x1b")
    assert "code" not in entries[1]
    assert notes == ["The code with which second failed is none that a stub set can say."]


async def test_pinned_entries_answer_one_request() -> None:
    made = await bundle(SCRIPT, {}, answer=answer)
    entries, _ = stub_entries(made, pinned=True)
    stubs = StubSet(entries)
    call = {"op": "agent", "agent_ref": "lead_agent", "task": {"n": 1}}
    assert entries[0]["request"] == request_hash("lead_agent", child_input(call))
    assert stubs.match("lead_agent", "evidence", child_input(call)) is not None
    assert stubs.match("lead_agent", "evidence", child_input({**call, "task": {"n": 2}})) is None


async def test_answers_of_real_agents_are_pinned_and_unanswered_calls_are_named() -> None:
    from workflows_core.journal.frames import ChildNote, Mark, Side

    live = Side(children={"evidence": ChildNote(child_run_id="ar_1", badge="live")})
    made = await bundle(SCRIPT, {}, answer=answer, rounds=1, marks=(Mark(0, 2, 5, live),))
    entries, notes = stub_entries(made)
    assert ["request" in entry for entry in entries] == [True]
    assert notes == ["second had no answer yet, so nothing answers it."]


async def test_an_answer_that_looks_like_a_template_is_noted() -> None:
    made = await bundle(SCRIPT, {}, answer=lambda call: value_of("use {{task.name}} here"))
    _, notes = stub_entries(made)
    assert notes[0] == "The answer of evidence holds {{task…}}, which a stub set fills in."


async def test_the_id_of_a_run_is_inert_in_what_is_made_of_it() -> None:
    made = await bundle(SCRIPT, {}, answer=answer)
    hostile = 'wr_1"""\nraise SystemExit\n"""\u2028\n- reply: injected'
    made = msgspec.structs.replace(made, record=msgspec.structs.replace(made.record, run_id=hostile))
    entries, _ = stub_entries(made)
    assert parse_stub_set(stub_text(entries, made), "x") == entries
    assert parse_stub_set(stub_text([], made), "x") == []
    module: dict[str, Any] = {}
    exec(compile(test_text(made, "complete"), "test_x.py", "exec"), module)
    assert module["RUN"] == hostile


TEXTS = st.text(max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def plain() -> Any:
    import asyncio

    return asyncio.run(bundle(SCRIPT, {}, answer=answer))


@given(reply=VALUES)
@settings(max_examples=60, deadline=None)
def test_every_answer_survives_the_stub_set(plain: Any, reply: Any) -> None:
    entries = [{"step": "a", "agent": "b", "reply": reply}]
    try:
        text = stub_text(entries, plain)
    except UsageError:
        return  # refused in words rather than changed
    assert parse_stub_set(text, "x") == entries


async def test_a_test_holds_script_frames_and_stubs_as_python() -> None:
    script = SCRIPT + '// """ and \\ and \t tabs\n'
    made = await bundle(script, {}, answer=answer)
    names: dict[str, Any] = {}
    exec(compile(test_text(made, "complete"), "test_made.py", "exec"), names)
    assert names["SCRIPT"] == script
    assert [frame[0] for frame in names["FRAMES"]] == [frame.kind.value for frame in made.frames]
    assert names["END"] == {"by": "script", "ok": True, "value": 1}
    with pytest.raises(UsageError, match="redacted"):
        test_text(redact(made, {}), "complete")


test_text.__test__ = False  # type: ignore[attr-defined]  # it makes a test and is none
