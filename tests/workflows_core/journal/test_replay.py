"""Replaying recorded runs: what agrees, what diverges and where, what ends early, and what is no journal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows_core.journal.debugger import explain
from workflows_core.journal.frames import Frame, FrameKind, JournalWriter, Side
from workflows_core.journal.replay import Difference, Ending, Replayer, differences
from workflows_core.journal.verify import Verdict, read_start, verdict_document, verify
from workflows_core.jsontext import encode, parse
from workflows_core.limits import Limits
from workflows_core.worker.ahead import ReplayWorker
from workflows_core.worker.process import Worker

from .recording import Fails, echo, rechained, record, start_frame, value_of, without

SCRIPT = """\
let total = 0;
for (const round of [1, 2]) {
  const both = await parallel([
    () => agent({stepId: `a-${round}`, agentRef: 'lead_agent', task: {round, total}}),
    () => agent({stepId: `b-${round}`, agentRef: 'lead_agent', task: {round}}),
  ]);
  total += both[0].output.round + both[1].output.round;
  log(`after ${round}: ${total}`);
}
const last = await agent({stepId: 'last', agentRef: 'lead_agent', task: total});
return {total: last.output};
"""
CALL = "agent({stepId: 'a', agentRef: 'lead_agent', task: 1})"


async def journal() -> list[Frame]:
    return await record(SCRIPT)


async def replayed(script: str, frames: list[Frame], *, ahead: bool) -> Any:
    kind = ReplayWorker if ahead else Worker
    worker = await kind.start(script=script, args=b"{}", limits=Limits(), replay=True)
    try:
        return await Replayer(worker, frames).run()
    finally:
        await worker.close()


def changed(frame: Frame, old: str, new: str) -> bytes:
    body = frame.body.decode()
    assert old in body
    return body.replace(old, new).encode()


async def test_a_recorded_run_replays_whole() -> None:
    frames = await journal()
    assert [frame.kind.value for frame in frames] == [
        "start", "request", "response", "request", "response", "request", "response", "end",
    ]  # fmt: skip
    assert await verify(SCRIPT, frames) == Verdict("complete", 8)


@pytest.mark.parametrize("ahead", [True, False])
async def test_both_ways_of_replaying_agree(ahead: bool) -> None:
    frames = await journal()
    end = await replayed(SCRIPT, frames, ahead=ahead)
    assert (end.ending, end.next_turn, end.unanswered, end.agreed) == (Ending.COMPLETE, None, (), 7)


@pytest.mark.parametrize("ahead", [True, False])
async def test_a_journal_that_a_crash_cut_off_ends_early_at_every_frame(ahead: bool) -> None:
    frames = await journal()
    for cut in range(1, len(frames)):
        end = await replayed(SCRIPT, frames[:cut], ahead=ahead)
        assert end.ending is Ending.ENDS_EARLY
        waits = frames[cut - 1].kind is FrameKind.REQUEST
        assert [call["step_id"] for call in end.unanswered] == (_steps(frames[cut - 1]) if waits else [])
        if waits:
            assert end.next_turn is None
        elif frames[cut].kind is FrameKind.REQUEST:
            assert end.next_turn is not None
            assert [request.body for request in end.next_turn.requests] == [frames[cut].body]
        else:
            assert end.next_turn is not None and end.next_turn.end is not None


def _steps(frame: Frame) -> list[str]:
    return [call["step_id"] for call in parse(frame.body)["calls"] if "id" in call]


async def test_after_an_early_end_the_same_worker_goes_on() -> None:
    frames = await journal()
    worker = await ReplayWorker.start(script=SCRIPT, args=b"{}", limits=Limits())
    try:
        await Replayer(worker, frames[:4]).run()
        turn = await worker.give([frames[4].body])
        assert [request.body for request in turn.requests] == [frames[5].body]
        assert (await worker.give([frames[6].body])).end is not None
    finally:
        await worker.close()


async def test_the_notes_say_what_is_missing() -> None:
    frames = await journal()
    assert (await verify(SCRIPT, frames[:2])).notes == (
        "The journal ends after frame 1, with no answer recorded for a-1, b-1.",
    )
    assert (await verify(SCRIPT, frames[:3])).notes == (
        "The journal ends after frame 2; the script would ask for log, a-2, b-2.",
    )
    assert (await verify(SCRIPT, frames[:7])).notes == (
        "The journal ends after frame 6; the script would end there.",
    )


async def test_a_divergence_names_frame_place_requests_and_differences() -> None:
    frames = await journal()
    body = changed(frames[3], '"task":{"round":2,"total":2}', '"task":{"round":2,"total":7}')
    verdict = await verify(SCRIPT, rechained(frames, {3: body}))
    assert verdict.verdict == "diverged"
    found = verdict.divergence
    assert found is not None
    assert (found.frame, found.agreed, found.line, found.column) == (3, 2, 4, 11)
    assert found.differences == (Difference("calls[1].task.total", 7, 2),)
    assert found.recorded == parse(body)
    assert found.now == parse(frames[3].body)
    assert verdict_document(verdict)["divergence"]["differences"] == [
        {"path": "calls[1].task.total", "recorded": 7, "now": 2}
    ]


@pytest.mark.parametrize("number", range(1, 8))
async def test_a_missing_frame_is_found_at_that_frame(number: int) -> None:
    frames = await journal()
    if number == 7:
        assert (await verify(SCRIPT, without(frames, 7))).verdict == "ends_early"
        return
    verdict = await verify(SCRIPT, without(frames, number))
    assert verdict.verdict == "diverged"
    assert verdict.divergence is not None and verdict.divergence.frame == number


@pytest.mark.parametrize("number", range(1, 8))
async def test_a_surplus_frame_is_found_at_that_frame(number: int) -> None:
    frames = await journal()
    doubled = [*frames[: number + 1], *frames[number:]]
    writer = JournalWriter()
    verdict = await verify(SCRIPT, [writer.frame(f.kind, f.body, 0, f.side) for f in doubled])
    if number == 7:
        assert verdict.verdict == "incompatible"
        assert verdict.notes == ("frame 8 stands after the end frame.",)
        return
    assert verdict.verdict == "diverged"
    assert verdict.divergence is not None and verdict.divergence.frame == number + 1


@pytest.mark.parametrize("number", [1, 3, 5])
async def test_every_altered_request_diverges_by_execution(number: int) -> None:
    frames = await journal()
    body = parse(frames[number].body)
    for key, new in (("step_id", "other"), ("agent_ref", "other"), ("task", None)):
        altered = parse(frames[number].body)
        altered["calls"][-1][key] = new
        assert altered != body
        verdict = await verify(SCRIPT, rechained(frames, {number: encode(altered)}))
        assert verdict.verdict == "diverged"
        assert verdict.divergence is not None and verdict.divergence.frame == number


async def test_an_altered_response_diverges_where_it_is_used() -> None:
    frames = await journal()
    body = changed(frames[2], '"output":{"round":1}', '"output":{"round":5}')
    verdict = await verify(SCRIPT, rechained(frames, {2: body}))
    assert verdict.divergence is not None
    assert (verdict.divergence.frame, verdict.divergence.line) == (3, 8)
    assert [d.path for d in verdict.divergence.differences] == ["calls[0].message", "calls[1].task.total"]


async def test_an_altered_result_diverges_at_the_end() -> None:
    frames = await journal()
    verdict = await verify(SCRIPT, rechained(frames, {7: encode({"by": "script", "ok": True, "value": 1})}))
    assert verdict.divergence is not None
    assert verdict.divergence.frame == 7
    assert verdict.divergence.differences == (Difference("value", 1, {"total": 6}),)


async def test_one_changed_byte_without_a_new_chain_is_found_before_anything_runs() -> None:
    frames = await journal()
    for frame in frames:
        body = bytearray(frame.body)
        body[len(body) // 2] ^= 1
        broken = [*frames]
        broken[frame.number] = msgspec.structs.replace(frame, body=bytes(body))
        verdict = await verify("this does not even compile", broken)
        assert (verdict.verdict, verdict.divergence) == ("incompatible", None)
        assert verdict.notes == (f"frame {frame.number} does not match its hash.",)


async def test_an_edited_script_is_compared_on_request_only() -> None:
    frames = await journal()
    edited = SCRIPT.replace("task: total", "task: total + 1")
    assert (await verify(edited, frames)).verdict == "incompatible"
    verdict = await verify(edited, frames, edited=True)
    assert verdict.divergence is not None
    assert (verdict.divergence.frame, verdict.divergence.line) == (5, 10)
    assert verdict.divergence.differences == (Difference("calls[1].task", 6, 7),)
    assert (await verify(SCRIPT + "\n// a remark\n", frames, edited=True)).verdict == "complete"


async def test_an_edited_script_that_does_not_compile_diverges_at_its_place() -> None:
    verdict = await verify("return (;", await journal(), edited=True)
    assert verdict.verdict == "diverged"
    assert verdict.divergence is not None and verdict.divergence.line == 1


async def test_another_runtime_signature_is_a_note() -> None:
    writer = JournalWriter()
    frames = [start_frame(writer, "return 1;", {}, runtime_signature="older")]
    frames.append(writer.frame(FrameKind.END, encode({"by": "script", "ok": True, "value": 1}), 1))
    verdict = await verify("return 1;", frames)
    assert verdict.verdict == "complete"
    assert "another version" in verdict.notes[0]


async def test_a_rejected_call_and_a_failed_script_replay() -> None:
    def fail(call: dict[str, Any]) -> Any:
        raise Fails("no luck")

    caught = f"try {{ await {CALL}; }} catch (e) {{ return [e.name, e.code, e.message]; }}"
    frames = await record(caught, answer=fail)
    assert parse(frames[-1].body)["value"] == ["AgentError", "agent_failed", "no luck"]
    assert (await verify(caught, frames)).verdict == "complete"
    thrown = f"await {CALL};"
    frames = await record(thrown, answer=fail)
    assert (await verify(thrown, frames)).verdict == "complete"


@pytest.mark.parametrize(
    ("engine_end", "script"),
    [
        ("cancelled", f"await {CALL};"),
        ("result_too_large", "return 1;"),
        ("log_limit", "log('x'); return 1;"),
    ],
)
async def test_an_end_that_the_engine_made_is_complete(engine_end: str, script: str) -> None:
    frames = (
        (await record(script, rounds=0))[:1] if engine_end == "log_limit" else await record(script, rounds=0)
    )
    kept = [(f.kind, f.body, f.side) for f in frames if f.kind is not FrameKind.END]
    error = {"code": engine_end, "message": "so it was", "name": "WorkflowError"}
    end = encode({"by": "engine", "error": error, "ok": False})
    writer = JournalWriter()
    made = [writer.frame(kind, body, 0, side) for kind, body, side in [*kept, (FrameKind.END, end, Side())]]
    assert (await verify(script, made)).verdict == "complete"


async def test_a_limit_that_only_one_side_reached_is_not_a_divergence() -> None:
    script = "return 1;"
    writer = JournalWriter()
    frames = [start_frame(writer, script, {})]
    error = {"code": "time_limit", "message": "more than 50 ms", "name": "WorkflowError"}
    frames.append(writer.frame(FrameKind.END, encode({"by": "script", "error": error, "ok": False}), 1))
    verdict = await verify(script, frames)
    assert verdict.verdict == "ends_early"
    assert verdict.notes[0].startswith("Limit here: after frame 0")


@pytest.mark.parametrize(
    ("recorded", "now", "verdict"),
    [
        ("log('a'); log('b'); return 1;", "log('a'); for (;;) {}", "ends_early"),
        ("log('a'); for (;;) {}", "log('a'); log('b'); return 1;", "ends_early"),
        ("log('a'); log('b'); return 1;", "log('c'); for (;;) {}", "diverged"),
        ("log('a'); for (;;) {}", "log('c'); log('b'); return 1;", "diverged"),
        ("log('a'); log('b'); return 1;", "log('a'); return 1;", "diverged"),
        ("log('a'); return 1;", "log('a'); log('b'); return 1;", "diverged"),
    ],
)
async def test_a_limit_in_the_middle_of_a_frame_is_not_a_divergence(
    recorded: str, now: str, verdict: str
) -> None:
    found = await verify(now, await record(recorded), edited=True)
    assert found.verdict == verdict
    if verdict == "ends_early":
        assert found.notes == (
            "Limit here: after frame 0 only one of the two runs reached a limit of its machine, "
            "which proves nothing about what follows.",
        )


@pytest.mark.parametrize(
    ("then", "place"),
    [
        ("throw new Error('x');", (2, 11)),
        ("return 1;", (2, None)),
        ("await new Promise(() => {});", (2, 1)),
        ("log('c');", (2, 1)),
    ],
)
async def test_where_less_is_asked_than_recorded_the_place_is_behind_what_agrees(
    then: str, place: tuple[int, int | None]
) -> None:
    script, frames = f"log('a');\n{then}", await record("log('a');\nlog('b');\nreturn 1;")
    verdict = await verify(script, frames, edited=True)
    assert verdict.divergence is not None and verdict.divergence.frame == 1
    assert (verdict.divergence.call is None) == (then != "log('c');")
    found = await explain(script, frames, verdict.divergence)
    assert found.line == place[0]
    if place[1] is not None:
        assert found.column == place[1]


async def test_the_time_limit_of_a_recorded_run_is_reached_again() -> None:
    script = "for (;;) {}"
    frames = await record(script)
    assert parse(frames[-1].body)["error"]["code"] == "time_limit"
    assert (await verify(script, frames)).verdict == "complete"


async def test_a_turn_of_several_frames_replays_and_can_be_cut_inside() -> None:
    script = """
    const all = [];
    for (let i = 0; i < 4; i++) {
      all.push(agent({stepId: `s${i}`, agentRef: 'lead_agent', task: 'x'.repeat(15000)}));
    }
    for (const one of all) await one;
    return 1;
    """
    frames = await record(script)
    assert [frame.kind.value for frame in frames[:4]] == ["start", "request", "request", "response"]
    assert (await verify(script, frames)).verdict == "complete"
    verdict = await verify(script, frames[:2])
    assert verdict.verdict == "ends_early"


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (FrameKind.REQUEST, b"[]", "is not a JSON object"),
        (FrameKind.REQUEST, b"{", "is not valid JSON"),
        (FrameKind.REQUEST, b'{"calls":[]}', "no body of a request"),
        (FrameKind.REQUEST, b'{"calls":[{"id":"1","op":"agent"}]}', "no body of a request"),
        (FrameKind.RESPONSE, b'{"results":[{"id":1}]}', "no body of a response"),
        (
            FrameKind.RESPONSE,
            b'{"results":[{"error":{"code":1},"id":1,"ok":false}]}',
            "no body of a response",
        ),
        (FrameKind.END, b'{"by":"nobody","ok":true}', "no body of a end"),
        (FrameKind.REQUEST, b'{"calls":"' + b"x" * 50_000 + b'"}', "larger than a frame"),
    ],
)
async def test_what_is_no_body_of_its_kind_is_no_journal(kind: FrameKind, body: bytes, words: str) -> None:
    writer = JournalWriter()
    frames = [start_frame(writer, "return 1;", {}), writer.frame(kind, body, 1)]
    verdict = await verify("return 1;", frames)
    assert verdict.verdict == "incompatible"
    assert words in verdict.notes[-1]


async def test_an_empty_journal_and_a_start_without_its_facts_are_no_journals() -> None:
    assert (await verify("return 1;", [])).verdict == "incompatible"
    writer = JournalWriter()
    frame = writer.frame(FrameKind.START, b'{"args":{}}', 1)
    assert (await verify("return 1;", [frame])).notes == (
        "frame 0 is not a start frame: its script_hash is missing or of another kind.",
    )


async def test_limits_of_another_version_are_taken_as_far_as_they_are_known() -> None:
    writer = JournalWriter()
    frame = start_frame(writer, "return 1;", {}, limits={"max_calls": 3, "cpu_seconds": 10**9, "new_one": 1})
    start = read_start([frame])
    assert start.limits == Limits(max_calls=3)
    note = "Frame 0 has limits that this version does not take over: cpu_seconds, new_one."
    assert start.notes == (note,)
    assert note in (await verify("return 1;", [frame])).notes


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"agents": [1]}, "agents"), ({"limits": {"concurrency": "x"}}, "concurrency")],
)
async def test_a_start_frame_of_another_kind_is_no_start_frame(changes: dict[str, Any], word: str) -> None:
    verdict = await verify("return 1;", [start_frame(JournalWriter(), "return 1;", {}, **changes)])
    assert verdict.verdict == "incompatible" and word in verdict.notes[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
@settings(max_examples=150, deadline=None)
def test_differences_are_empty_exactly_for_equal_values(left: Any, right: Any) -> None:
    assert (differences(left, right) == []) == (encode(left) == encode(right))


def test_differences_tell_a_missing_key_from_null() -> None:
    (found,) = differences({"a": None}, {})
    assert (found.path, found.recorded, found.now) == ("a", None, {"$type": "missing"})
    (found,) = differences({}, {"a": {"b": 1}})
    assert (found.path, found.recorded, found.now) == ("a", {"$type": "missing"}, {"b": 1})


async def test_answers_in_another_order_replay_as_recorded() -> None:
    frames = await record(SCRIPT, order=lambda waiting: waiting[-1:], answer=echo)
    assert (await verify(SCRIPT, frames)).verdict == "complete"
    assert len(frames) == 10


async def test_a_response_that_was_recorded_twice_is_found() -> None:
    frames = await record(f"await {CALL}; return 1;")
    doubled = encode({"results": [{"id": 1, "ok": True, "value": value_of(1)}] * 2})
    verdict = await verify(f"await {CALL}; return 1;", rechained(frames, {2: doubled}))
    assert verdict.divergence is not None and verdict.divergence.frame == 2
