"""Which message of a child run is its result: the rule by which an answer is attributed to what was asked.

A Gateway returns the messages of a run as ``{event_type, content, seq, metadata}``. ``content`` is a message
(``type`` or ``role``, ``content``, ``id``, ``name``, ``additional_kwargs``, ``tool_calls``, ``artifact``), or the
bare content with the role told by ``event_type`` alone. Everything in it is a stranger's: nothing here raises.

The rule, in the order in which it decides:

1. Messages of another run do not count: those whose ``run_id`` (of the event, its metadata or the message) is
   another one than asked for.
2. The *anchor* is the first visible human message that is ours: its text is the text that was sent, or was
   before the host rewrote it (``original_user_content``, or an id that ends with ``__user`` and our text within).
   Hidden messages (``hide_from_ui``: reminders, memory; summaries) are never the anchor, and an id proves
   nothing, because a host may give the id of our message to the reminder that it puts before it.
   No anchor: ``attribution_no_input``.
3. A visible human message behind the anchor that is another turn conflicts: ``attribution_conflict``. The
   anchor's own message told again under its id is no other turn; prompts of middleware and of subagents are not
   a person's.
4. A tool message behind the anchor whose artifact says ``human_input.kind == "human_input_request"`` asks a
   person: the status is waiting_input, whatever was said besides.
5. The result is the last answer behind the anchor: an assistant message of the lead agent that is visible, calls
   no tool and says something. A message with ``deerflow_error_fallback`` is the host's word for a provider that
   failed, and no answer: ``provider_failed``. Nothing there: ``attribution_no_answer``.

The output is the parsed JSON where the text of the answer is valid JSON, otherwise the text, or the content
blocks where they are more than text. Reasoning blocks are not part of an answer.

A failed attribution is a failed child run (status error), as the specification's table of states has it: the run
did end, and repeating it is for the script or a person to decide. In a recovery the engine takes every outcome
that is not a success as uncertain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from extension_api.agent_runs import AgentRunStatus
from extension_api.hashing import canonical_json
from workflows_core import jsontext

from ..inert import shorten
from .base import Answer

HUMAN: Final = "human"
ASSISTANT: Final = "ai"
TOOL: Final = "tool"

#: What the host appends to the id of a human message that it has rewritten.
USER_SUFFIX: Final = "__user"
_HIDDEN: Final = "hide_from_ui"
_FALLBACK: Final = "deerflow_error_fallback"
_ORIGINAL: Final = "original_user_content"
_SUMMARY: Final = "summary"
_QUESTION_CELLS: Final = 500

_ROLES: Final[Mapping[str, str]] = {
    "human": HUMAN, "user": HUMAN, "ai": ASSISTANT, "assistant": ASSISTANT, "aimessagechunk": ASSISTANT,
    "tool": TOOL, "system": "system", "developer": "system", "remove": "remove",
}  # fmt: skip
_EVENT_ROLES: Final[Mapping[str, str]] = {
    "human_message": HUMAN, "user_message": HUMAN, "llm.human.input": HUMAN,
    "ai_message": ASSISTANT, "assistant_message": ASSISTANT, "llm.ai.response": ASSISTANT,
    "tool_message": TOOL, "tool_result": TOOL, "llm.tool.result": TOOL,
}  # fmt: skip
_REASONING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
_TEXT: Final = frozenset({"text", "output_text", "input_text"})


def child_message(child_input: Mapping[str, Any]) -> str:
    """The human message that a child is sent: a text task as it is, anything else as canonical JSON.

    With artifacts the whole input is sent, ``{"artifacts": […], "task": …}``.
    """
    task = child_input.get("task")
    if child_input.get("artifacts"):
        return canonical_json(dict(child_input))
    return task if isinstance(task, str) else canonical_json(task)


def attribute(events: Iterable[Any], sent: str, run_id: str) -> Answer:
    """How a run that ended as success ended for the one who sent ``sent``; see the rule above.

    ``events`` are all messages of the run in any order where each has a ``seq``, else in the order of the run.
    """
    messages = [message for event in _ordered(events) if (message := _message(event, run_id)) is not None]
    at = next((i for i, message in enumerate(messages) if _is_ours(message, sent)), None)
    if at is None:
        return _failed("attribution_no_input", "the message that was sent is not among the run's messages")
    anchor, behind = messages[at], messages[at + 1 :]
    if any(_is_another_turn(message, anchor) for message in behind):
        return _failed(
            "attribution_conflict",
            "a person wrote into the thread after the message that was sent, so an answer is not ours alone",
        )
    for message in behind:
        if message.question is not None:
            return Answer(
                AgentRunStatus.WAITING_INPUT, error_code="waiting_input", error_message=message.question
            )
    for message in reversed(behind):
        if message.role != ASSISTANT or not message.lead:
            continue
        if message.fallback:
            return _failed("provider_failed", "the model's provider failed; the host answered in its place")
        if message.hidden or message.calls_tools:
            continue
        if _says_something(message.content):
            try:
                return Answer(AgentRunStatus.SUCCESS, output=output_of(message.content))
            except jsontext.JsonRefused as error:
                return _failed("output_not_json", str(error))
    return _failed("attribution_no_answer", "the run ended without an answer to the message that was sent")


def question_of(events: Iterable[Any], run_id: str) -> str | None:
    """What the run asks a person, where it does."""
    for event in _ordered(events):
        message = _message(event, run_id)
        if message is not None and message.question is not None:
            return message.question
    return None


def output_of(content: Any) -> Any:
    """The output that an answer's content stands for: JSON, text, or content blocks.

    Raises JsonRefused for blocks that JSON cannot carry.
    """
    if isinstance(content, list):
        content = [block for block in content if _kind(block) not in _REASONING]
        if not all(isinstance(block, str) or _kind(block) in _TEXT for block in content):
            return jsontext.parse(jsontext.encode(content, "the answer"), "the answer")
    elif not isinstance(content, str):
        return jsontext.parse(jsontext.encode(content, "the answer"), "the answer")
    text = text_of(content)
    try:
        return jsontext.parse(text)
    except jsontext.JsonRefused:
        return text


def text_of(content: Any) -> str:
    """The text of a message's content; what is not text counts for nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [block if isinstance(block, str) else block.get("text") for block in content if _says(block)]
    return "".join(part for part in parts if isinstance(part, str))


class _Message(NamedTuple):
    """One message, as far as the rule looks at it. ``lead`` is False for what middleware and subagents say."""

    role: str
    id: str
    content: Any
    original: str | None
    hidden: bool
    fallback: bool
    calls_tools: bool
    question: str | None
    lead: bool


def _message(event: Any, run_id: str) -> _Message | None:
    """The event as a message; None for another run's, and for what is no message at all."""
    if not isinstance(event, Mapping):
        return None
    metadata = _mapping(event.get("metadata"))
    content = event.get("content")
    body = _mapping(content)
    role = _ROLES.get(str(body.get("type") or body.get("role") or "").lower())
    if role is None:
        role = _EVENT_ROLES.get(str(event.get("event_type")))
        body = {"content": content}
    extra = _mapping(body.get("additional_kwargs"))
    runs = (event.get("run_id"), metadata.get("run_id"), body.get("run_id"), extra.get("run_id"))
    if role is None or any(isinstance(found, str) and found != run_id for found in runs):
        return None
    caller = str(metadata.get("caller") or "")
    identity = body.get("id")
    original = extra.get(_ORIGINAL)
    places = (extra, metadata, body, _mapping(body.get("response_metadata")))
    return _Message(
        role=role,
        id=identity if isinstance(identity, str) else "",
        content=body.get("content"),
        original=original if isinstance(original, str) else None,
        hidden=any(place.get(_HIDDEN) for place in places) or body.get("name") == _SUMMARY,
        fallback=any(place.get(_FALLBACK) for place in places),
        calls_tools=bool(body.get("tool_calls") or body.get("invalid_tool_calls")),
        question=_question(body) if role == TOOL else None,
        lead=not caller.startswith(("subagent:", "middleware:")),
    )


def _is_ours(message: _Message, sent: str) -> bool:
    if message.role != HUMAN or message.hidden:
        return False
    text = text_of(message.content)
    wanted = sent.strip()
    if wanted in (text.strip(), None if message.original is None else message.original.strip()):
        return True
    return bool(wanted) and message.id.endswith(USER_SUFFIX) and wanted in text


def _is_another_turn(message: _Message, anchor: _Message) -> bool:
    if message.role != HUMAN or message.hidden or not message.lead:
        return False
    return not message.id or _base(message.id) != _base(anchor.id)


def _base(identity: str) -> str:
    return identity.removesuffix(USER_SUFFIX)


def _question(body: Mapping[str, Any]) -> str | None:
    asked = _mapping(_mapping(body.get("artifact")).get("human_input"))
    if asked.get("kind") != "human_input_request":
        return None
    words = asked.get("question")
    text = words if isinstance(words, str) and words.strip() else text_of(body.get("content"))
    return shorten(text.strip(), _QUESTION_CELLS) or "the Agent asks a person for input"


def _ordered(events: Iterable[Any]) -> Sequence[Any]:
    """By ``seq``, each once, where every event has one; else as they came."""
    found = list(events)
    numbers = [event.get("seq") if isinstance(event, Mapping) else None for event in found]
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        return found
    by_number: dict[Any, Any] = {}
    for number, event in zip(numbers, found, strict=True):
        by_number.setdefault(number, event)
    return [by_number[number] for number in sorted(by_number)]


def _kind(block: Any) -> str:
    return str(block.get("type")) if isinstance(block, Mapping) else ""


def _says_something(content: Any) -> bool:
    if isinstance(content, list):
        return any(_kind(block) not in _REASONING and not _blank(block) for block in content)
    return isinstance(content, Mapping) or not _blank(content)


def _blank(block: Any) -> bool:
    text = block.get("text") if _kind(block) in _TEXT else block
    return text is None or (isinstance(text, str) and not text.strip())


def _says(block: Any) -> bool:
    return isinstance(block, str) or _kind(block) in _TEXT


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _failed(code: str, message: str) -> Answer:
    return Answer(AgentRunStatus.ERROR, error_code=code, error_message=message)
