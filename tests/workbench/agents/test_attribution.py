"""Which message of a child run is its result."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extension_api.agent_runs import AgentRunStatus
from workbench.agents.attribution import attribute, child_message, output_of
from workbench.agents.base import Answer

RUN = "run-1"
SENT = "Collect the evidence"


def event(kind: str, content: Any, identity: str = "", run: str | None = None, **more: Any) -> dict[str, Any]:
    """One message of a run; ``more`` are its further keys, ``caller`` goes to the metadata."""
    metadata = {"caller": more.pop("caller")} if "caller" in more else {}
    names = {"human": "llm.human.input", "ai": "llm.ai.response", "tool": "llm.tool.result"}
    made: dict[str, Any] = {"event_type": names[kind], "metadata": metadata}
    made["content"] = {"type": kind, "content": content, "id": identity or None, **more}
    if run is not None:
        made["run_id"] = run
    return made


def ours(text: Any = SENT, identity: str = "m1__user", **more: Any) -> dict[str, Any]:
    return event("human", text, identity, **more)


def hidden(kind: str = "human", text: str = "<reminder>", identity: str = "m1") -> dict[str, Any]:
    return event(kind, text, identity, additional_kwargs={"hide_from_ui": True})


def asks(text: str = "Which?") -> dict[str, Any]:
    request = {"kind": "human_input_request", "question": text}
    return event("tool", text, artifact={"human_input": request})


def numbered(*events: Any) -> list[Any]:
    return [{**made, "seq": number} for number, made in enumerate(events, 3)]


def judged(*events: Any) -> Answer:
    return attribute(numbered(*events), SENT, RUN)


def code(*events: Any) -> str | None:
    answer = judged(*events)
    assert (answer.status is AgentRunStatus.ERROR) == (answer.error_message is not None)
    return answer.error_code


def test_the_last_answer_behind_our_message_is_the_result() -> None:
    answer = judged(event("ai", "before"), hidden(), ours(), event("ai", "first"), event("ai", "last"))
    assert answer == Answer(AgentRunStatus.SUCCESS, output="last")


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ('{"n": [1, 2.5, null]}', {"n": [1, 2.5, None]}),
        ("7", 7),
        (' "text" ', "text"),
        ("NaN", "NaN"),
        ("```json\n{}\n```", "```json\n{}\n```"),
        ([{"type": "text", "text": '{"a"'}, {"type": "text", "text": ": 1}"}], {"a": 1}),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}], "so"),
        (["plain ", "parts"], "plain parts"),
        (
            [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}],
            [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}],
        ),
        ("0", 0),
        ("[]", []),
        ('""', ""),
        ("null", None),
        ("[" * 300 + "]" * 300, "[" * 300 + "]" * 300),
    ],
)
def test_json_is_parsed_and_everything_else_stays(content: Any, output: Any) -> None:
    assert judged(ours(), event("ai", content)) == Answer(AgentRunStatus.SUCCESS, output=output)
    assert output_of(content) == output


@pytest.mark.parametrize(
    "message",
    [
        ours(),
        ours(identity="m1"),
        ours(identity=""),
        ours(f"  {SENT}\n"),
        ours([{"type": "text", "text": SENT}]),
        ours(f"<uploaded_files/>\n{SENT}"),
        ours("BEGIN x END", identity="m1", additional_kwargs={"original_user_content": SENT}),
        {"event_type": "human_message", "content": SENT},
        {"event_type": "llm.human.input", "content": {"role": "user", "content": SENT}},
        ours(caller="middleware:guard"),
    ],
)
def test_our_message_is_found_however_the_host_tells_it(message: Any) -> None:
    assert judged(hidden(), message, event("ai", "yes")).output == "yes"


@pytest.mark.parametrize(
    "message",
    [
        hidden(text=SENT),
        hidden(text=SENT, identity="m1__user"),
        event("human", SENT, name="summary"),
        ours(run="run-0"),
        ours("Something else", identity="m1"),
        ours("Something else"),
        event("ai", SENT),
        {"event_type": "human_message", "content": SENT, "metadata": {"hide_from_ui": True}},
    ],
)
def test_without_our_visible_message_there_is_no_result(message: Any) -> None:
    assert code(message, event("ai", "yes")) == "attribution_no_input"


def test_the_reminder_that_took_our_id_is_not_the_anchor() -> None:
    """The host gives the id of our message to the reminder, and ours the suffix."""
    reminder = hidden(text=f"<memory>{SENT}</memory>", identity="m1")
    assert code(reminder, event("ai", "yes")) == "attribution_no_input"
    assert judged(reminder, ours(), event("ai", "yes")).output == "yes"


@pytest.mark.parametrize("later", [ours("And now?", identity="m2"), ours(identity="m2"), ours(identity="")])
def test_a_later_human_turn_conflicts(later: Any) -> None:
    assert code(ours(), event("ai", "yes"), later, event("ai", "no")) == "attribution_conflict"
    assert code(ours(), asks(), later) == "attribution_conflict"


@pytest.mark.parametrize(
    "later",
    [
        hidden(identity="m9"),
        ours(identity="m1"),
        ours(f"{SENT} (again)", identity="m1__user"),
        ours("And now?", identity="m2", run="run-2"),
        ours("Give it a title", identity="t", caller="middleware:title"),
        ours("Do your part", identity="s", caller="subagent:writer"),
        event("human", "So far", "u", name="summary"),
    ],
)
def test_what_is_no_later_human_turn_does_not_conflict(later: Any) -> None:
    assert judged(ours(), event("ai", "yes"), later).output == "yes"


@pytest.mark.parametrize(
    "noise",
    [
        event("ai", "", tool_calls=[{"name": "search", "args": {}}]),
        event("ai", "I shall search", tool_calls=[{"name": "search", "args": {}}]),
        event("ai", "a title", caller="middleware:title"),
        event("ai", "a part", caller="subagent:writer"),
        event("ai", "of another", run="run-2"),
        event("ai", [{"type": "thinking", "thinking": "hm"}]),
        event("ai", "  "),
        event("ai", None),
        event("ai", []),
        hidden("ai", "hidden"),
        event("tool", "result"),
        event("tool", "result", artifact={"human_input": {"kind": "human_input_response"}}),
        {"event_type": "run.end", "content": {"messages": []}},
        {"event_type": "ai_tool_call", "content": "search"},
    ],
)
def test_what_is_no_answer_does_not_count(noise: Any) -> None:
    assert judged(ours(), event("ai", "yes"), noise).output == "yes"
    assert code(ours(), noise) == "attribution_no_answer"


def test_a_provider_fallback_is_never_success() -> None:
    for place in ("additional_kwargs", "response_metadata"):
        flags: dict[str, Any] = {place: {"deerflow_error_fallback": True, "hide_from_ui": True}}
        fallback = event("ai", "Sorry", **flags)
        assert code(ours(), event("ai", "yes"), fallback) == "provider_failed"
        assert judged(ours(), fallback, event("ai", "yes")).output == "yes"


def test_a_question_to_a_person_is_waiting_input() -> None:
    answer = judged(ours(), event("ai", "yes"), asks("Which product?"), event("ai", "later"))
    assert (answer.status, answer.error_message) == (AgentRunStatus.WAITING_INPUT, "Which product?")
    bare = {"human_input": {"kind": "human_input_request"}}
    assert judged(ours(), event("tool", "What?", artifact=bare)).error_message == "What?"
    assert judged(ours(), event("tool", None, artifact=bare)).error_message is not None
    assert judged(asks(), ours(), event("ai", "yes")).output == "yes"


def test_messages_come_in_the_order_of_their_numbers() -> None:
    events = numbered(ours(), event("ai", "first"), event("ai", "last"))
    assert attribute(reversed(events), SENT, RUN).output == "last"
    assert attribute([*events, *events], SENT, RUN).output == "last"
    assert attribute([{**made, "seq": None} for made in events], SENT, RUN).output == "last"


def test_what_json_cannot_carry_is_no_output() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    assert code(ours(), event("ai", [{"type": "x", "deep": deep}])) == "output_not_json"
    assert code(ours(), event("ai", [{"type": "x", "text": "\ud800"}])) == "output_not_json"


def test_a_question_is_inert_and_short() -> None:
    answer = judged(ours(), asks("a\x1b[31m\u202e\ud800" + "b" * 900))
    assert answer.error_message is not None
    assert answer.error_message.startswith("a␛[31m") and len(answer.error_message) <= 500
    assert answer.error_message.encode()


@pytest.mark.parametrize(
    "garbage",
    [None, 7, [], "text", {}, {"content": None}, {"event_type": 5, "content": {"type": ["ai"]}},
     {"content": {"type": "ai", "content": 5, "additional_kwargs": 3, "tool_calls": "x", "id": {}}},
     {"content": {"type": "tool", "artifact": {"human_input": "x"}}, "metadata": "m"}],
)  # fmt: skip
def test_garbage_is_no_message(garbage: Any) -> None:
    assert attribute([garbage, ours(), garbage], SENT, RUN).status is AgentRunStatus.ERROR


def test_what_is_sent_is_the_task() -> None:
    assert child_message({"task": "as it is", "artifacts": []}) == "as it is"
    assert child_message({"task": {"b": 1, "a": "ü"}}) == '{"a":"ü","b":1}'
    whole = {"task": "read", "artifacts": [{"version": "v", "sha256": "v"}]}
    assert json.loads(child_message(whole)) == whole


noise = st.sampled_from(
    [
        hidden(),
        hidden(text=SENT),
        hidden("ai", "hidden"),
        event("tool", "result"),
        event("ai", "searching", tool_calls=[{"name": "search"}]),
        event("ai", "part", caller="subagent:writer"),
        ours(identity="o1", run="run-2"),
        event("ai", "theirs", run="run-2"),
        event("ai", "theirs", additional_kwargs={"run_id": "run-2", "deerflow_error_fallback": True}),
        {**asks(), "run_id": "run-2"},
        event("ai", ""),
        "garbage",
        {"event_type": "run.start", "content": {"chain": "lead"}},
    ]
)
#: A conversation with everything that must not matter in any place of it.
mixed = st.lists(st.one_of(noise, st.sampled_from(["ours", "answer"])), max_size=30)
answers = st.one_of(st.text(min_size=1).filter(lambda text: text.strip()), st.integers().map(str))


@given(before=st.lists(noise, max_size=8), then=mixed, text=answers)
def test_hidden_messages_tools_and_other_runs_change_nothing(
    before: list[Any], then: list[Any], text: str
) -> None:
    """The same turn, told with and without noise, has the same result."""
    turn: list[Any] = [ours()]
    count = 0
    for item in then:
        if item == "answer":
            count += 1
        turn.append(
            {"ours": ours(), "answer": event("ai", f"{text} {count}")}.get(item, item)
            if isinstance(item, str)
            else item
        )
    answer = attribute([*before, *turn], SENT, RUN)
    if count:
        assert answer == Answer(AgentRunStatus.SUCCESS, output=output_of(f"{text} {count}"))
    else:
        assert answer.error_code == "attribution_no_answer"


@given(
    before=st.lists(noise, max_size=5),
    between=st.lists(noise, max_size=5),
    behind=st.lists(noise, max_size=5),
)
def test_a_later_person_conflicts_wherever_it_stands(
    before: list[Any], between: list[Any], behind: list[Any]
) -> None:
    events = [*before, ours(), event("ai", "yes"), *between, ours("More", identity="m2"), *behind]
    assert attribute(events, SENT, RUN).error_code == "attribution_conflict"
    without = [made for made in events if made != ours()]
    assert attribute(without, SENT, RUN).error_code == "attribution_no_input"
