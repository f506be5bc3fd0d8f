from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extension_api.agent_runs import AgentRunStatus
from extension_api.hashing import canonical_hash
from workbench.agents.stubset import STUB_SET_BYTES, StubSet, covers, parse_stub_set, request_hash
from workflows_core.errors import UsageError

_NAMES = st.text("ab-_1", min_size=1, max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab{}", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def entries(text: str) -> StubSet:
    return StubSet(parse_stub_set(text, "s.yaml"))


def match(stubs: StubSet, step: str, task: Any = None, agent: str = "lead_agent") -> int | None:
    entry = stubs.match(agent, step, {"task": task})
    return None if entry is None else entry.index


def test_the_first_entry_that_matches_answers() -> None:
    stubs = entries("- {step: a, reply: 1}\n- {step: 'a*', reply: 2}\n- {agent: 'w*', reply: 3}\n")
    assert match(stubs, "a") == 0
    assert match(stubs, "ab") == 1
    assert match(stubs, "x") is None
    assert match(stubs, "x", agent="writer") == 2


def test_globs_are_case_sensitive_and_whole() -> None:
    stubs = entries("- {step: 'check-[ab]', reply: 1}\n")
    assert match(stubs, "check-a") == 0
    assert match(stubs, "Check-a") is None
    assert match(stubs, "check-a2") is None


@pytest.mark.parametrize(
    ("pattern", "task", "expected"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": 1}, {"b": 1}, False),
        ({}, {"b": 1}, True),
        ({}, "text", False),
        ([1, {"a": 1}], [1, {"a": 1, "b": 2}], True),
        ([1], [1, 2], False),
        (1, 1.0, True),
        (1, True, False),
        (None, None, True),
        (None, 0, False),
        ("x", "x", True),
    ],
)
def test_a_task_pattern_is_a_subset(pattern: Any, task: Any, expected: bool) -> None:
    assert covers(pattern, task) is expected


@given(_JSON)
@settings(max_examples=100, deadline=None)
def test_everything_covers_itself(value: Any) -> None:
    assert covers(value, value)


@given(st.dictionaries(st.sampled_from("abcd"), _JSON, max_size=4), st.sampled_from("abcd"))
@settings(max_examples=100, deadline=None)
def test_leaving_keys_out_of_a_pattern_only_widens_it(task: dict[str, Any], key: str) -> None:
    smaller = {name: value for name, value in task.items() if name != key}
    assert covers(smaller, task)
    assert covers(task, smaller) is (key not in task)


@given(st.lists(st.tuples(_NAMES, _NAMES), min_size=1, max_size=5), _NAMES, _NAMES)
@settings(max_examples=100, deadline=None)
def test_matching_is_the_first_of_the_list(globs: list[tuple[str, str]], agent: str, step: str) -> None:
    globs = [(a.replace("1", "*"), s.replace("1", "?")) for a, s in globs]
    stubs = StubSet([{"agent": a, "step": s, "reply": None} for a, s in globs])
    expected = next(
        (i for i, (a, s) in enumerate(globs) if fnmatchcase(agent, a) and fnmatchcase(step, s)), None
    )
    found = stubs.match(agent, step, {"task": None})
    assert (None if found is None else found.index) == expected
    assert StubSet([{"agent": a, "step": s, "reply": None} for a, s in globs]).hash == stubs.hash


def test_replies_come_one_by_one_and_then_fail_in_words() -> None:
    entry = entries("- {replies: [a, {b: 1}]}\n").entries[0]
    assert entry.counted
    first, second, third = (entry.answer(None, count) for count in range(3))
    assert first is not None and first.output == "a"
    assert second is not None and second.output == {"b": 1}
    assert third is not None and third.status is AgentRunStatus.ERROR
    assert third.error_code == "stub_exhausted"
    assert third.error_message is not None
    assert "stub entry 1 has 2 replies and was called 3 times" in third.error_message


def test_the_other_answers() -> None:
    text = "- fail: no\n- {fail: no, code: file_changed}\n- needs_input: which one?\n- hang: true\n"
    fail, coded, ask, hang = entries(text).entries
    failed = fail.answer(None, 0)
    answers = [fail.answer(None, 0), coded.answer(None, 0)]
    assert [answer and answer.error_code for answer in answers] == ["stub_failed", "file_changed"]
    asked = ask.answer(None, 0)
    assert failed is not None and (failed.status, failed.error_message) == (AgentRunStatus.ERROR, "no")
    assert asked is not None and asked.status is AgentRunStatus.WAITING_INPUT
    assert asked.error_message == "which one?"
    assert hang.answer(None, 0) is None


def test_a_placeholder_that_the_task_does_not_have_fails_in_words() -> None:
    answer = entries("- reply: 'for {{task.product}}'\n").entries[0].answer({"x": 1}, 0)
    assert answer is not None
    assert (answer.status, answer.error_code) == (AgentRunStatus.ERROR, "stub_template")
    assert answer.error_message == (
        "stub entry 1: the reply names {{task.product}}, which this task does not have"
    )


def test_a_recorded_answer_is_said_as_it_was_said() -> None:
    digest = request_hash("lead_agent", {"task": {"a": 1}})
    entry = StubSet([{"request": digest, "reply": ["{{task.a}}", "{{task.none}}"]}]).entries[0]
    answer = entry.answer({"a": 1}, 0)
    assert answer is not None and answer.output == ["{{task.a}}", "{{task.none}}"]


def test_a_recorded_entry_answers_its_request_only_and_says_so() -> None:
    digest = request_hash("lead_agent", {"task": {"a": 1}})
    stubs = StubSet([{"request": digest, "reply": 1}, {"reply": 2}])
    assert match(stubs, "s", {"a": 1}) == 0
    assert match(stubs, "s", {"a": 2}) == 1
    assert [entry.badge for entry in stubs.entries] == ["recorded", "stub"]


def test_an_empty_file_is_an_empty_set() -> None:
    assert parse_stub_set("", "s.yaml") == []
    assert parse_stub_set("# nothing\n", "s.yaml") == []


def test_every_key_is_understood() -> None:
    text = (
        """
- agent: "lead_*"
  step: evidence
  task: {product: soap}
  request: """
        + "a" * 64
        + """
  reply: {product: "{{task.product}}"}
  after: 0.5
  files: {report.md: "# Evidence", "sub/raw.bin": "base64:AAEC"}
  system:
    - {kind: title, reply: A title, after: 0.1}
    - {kind: memory, fail: no memory}
  compact: {messages: [one, {two: 2}], summary: both, kept: 3, kind: k, version: "2"}
  subagents:
    - {agent: reader, tool_call: call-1, after: 0.1}
    - {agent: writer, fail: it broke}
"""
    )
    plain = parse_stub_set(text, "s.yaml")
    stubs = StubSet(plain)
    entry = stubs.entries[0]
    assert stubs.hash == canonical_hash(plain)
    assert (entry.after, entry.files) == (0.5, {"report.md": "# Evidence", "sub/raw.bin": "base64:AAEC"})
    assert [(call.kind, call.reply, call.fail) for call in entry.system] == [
        ("title", "A title", None),
        ("memory", None, "no memory"),
    ]
    assert entry.compact is not None and entry.compact.messages == ("one", {"two": 2})
    assert [(sub.agent, sub.tool_call, sub.fail) for sub in entry.subagents] == [
        ("reader", "call-1", None),
        ("writer", None, "it broke"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step: x", "s.yaml:1:1: a stub set is a list of entries"),
        ("- 1", "s.yaml:1:3: [0] must be a mapping"),
        (
            "- step: a\n  repyl: 1",
            "s.yaml:2:3: [0].repyl is not a key of a stub entry. Did you mean 'reply'?",
        ),
        ("- step: a", "s.yaml:1:3: [0] says no answer; give one of reply, replies"),
        ("- {reply: 1, fail: x}", "[0].fail cannot stand beside reply"),
        ("- {step: 1, reply: 1}", "[0].step must be text, not the number 1"),
        ("- {step: '', reply: 1}", "[0].step must be text, not empty text"),
        (f"- {{step: {'a' * 201}, reply: 1}}", "[0].step is longer than 200 characters"),
        ("- {replies: []}", "[0].replies must hold at least one reply"),
        ("- {replies: 1}", "[0].replies must be a list of replies"),
        ("- {fail: {a: 1}}", "[0].fail must be text, not a mapping"),
        ("- {needs_input: true}", "[0].needs_input must be text, not true"),
        ("- {fail: x, code: A b}", "[0].code must be up to 64 lower-case letters"),
        ("- {fail: x, code: 1}", "[0].code must be up to 64 lower-case letters"),
        ("- {reply: x, code: gone}", "[0].code belongs to a failure"),
        ("- {hang: false}", "[0].hang can only be true"),
        ("- {reply: 1, after: soon}", "[0].after must be a number, not text"),
        ("- {reply: 1, after: -1}", "[0].after is -1; admitted are 0 to 86400"),
        ("- {reply: 1, after: true}", "[0].after must be a number, not true"),
        ("- {reply: 1, request: abc}", "[0].request must be the SHA-256"),
        ("- {reply: 1, files: [a]}", "[0].files must be a mapping"),
        ("- {reply: 1, files: {a: 1}}", "[0].files.a must be text or 'base64:…', not the number 1"),
        ("- {reply: 1, files: {a: 'base64:?'}}", "[0].files.a starts with 'base64:'"),
        ("- {reply: 1, files: {../a: x}}", "[0].files.../a must be a plain path"),
        ("- {reply: 1, files: {a//b: x}}", "must be a plain path"),
        ("- {reply: 1, files: {'a\\b': x}}", "is not usable as the name of a file"),
        ("- {reply: 1, files: {" + ", ".join(f"f{i}: x" for i in range(17)) + "}}", "admitted are 16"),
        ("- {reply: 1, system: [{kind: nap, reply: 1}]}", "[0].system[0].kind is 'nap'; admitted are"),
        ("- {reply: 1, system: [{kind: goal}]}", "[0].system[0] needs either reply or fail"),
        ("- {reply: 1, system: [{kind: goal, reply: 1, fail: x}]}", "needs either reply or fail"),
        ("- {reply: 1, system: [{kind: goal, reply: 1, x: 1}]}", "x is not a key of an entry of system"),
        ("- {reply: 1, compact: {summary: x}}", "[0].compact needs messages"),
        ("- {reply: 1, compact: {messages: [a]}}", "[0].compact needs summary"),
        ("- {reply: 1, compact: {messages: [a], summary: b, kept: x}}", "[0].compact.kept must be a whole"),
        ("- {reply: 1, compact: {messages: [a], summary: b, keep: 1}}", "keep is not a key of compact"),
        ("- {reply: 1, subagents: [{}]}", "[0].subagents[0] needs the key 'agent'"),
        ("- {reply: 1, subagents: [{agent: a, nme: b}]}", "nme is not a key of an entry of subagents"),
        ("- {reply: 1, subagents: {agent: a}}", "[0].subagents must be a list of subagents"),
        ("- reply: 1\n- reply: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_stub_set(text, "s.yaml")
    assert message in caught.value.message


def test_a_file_of_more_than_two_mebibytes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\[0\]\.files\.big is 2,097,153 bytes"):
        parse_stub_set("- {reply: 1, files: {big: " + "a" * (2 * 1024 * 1024 + 1) + "}}", "s.yaml")
    with pytest.raises(UsageError, match="larger than 3 MiB"):
        parse_stub_set(b"#" * (STUB_SET_BYTES + 1), "s.yaml")


@pytest.mark.parametrize(
    "bad", [[1], [{}], [{"reply": 1, "x": 2}], [{"reply": float("nan")}], [{"reply": "\ud800"}]]
)
def test_a_set_from_a_record_is_checked_as_a_file_is(bad: list[Any]) -> None:
    with pytest.raises(UsageError):
        StubSet(bad)
