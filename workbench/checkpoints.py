"""What a checkpoint asks about, for lines on a terminal: the exact bytes, and who gets them next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from workflows_core import jsontext
from workflows_core.errors import Conflict, NotFound
from workflows_core.model import Artifact, StepKind, StepView

from .inert import cells, symbol

if TYPE_CHECKING:
    from workflows_core.model import RunView
    from workflows_core.script.analysis import Analysis
    from workflows_core.script.approvals import Versions
    from workflows_core.script.tree import Node

_HEX_ROW: Final = 16
_INDENT: Final = 2


class NextStep(msgspec.Struct, frozen=True):
    """A step that the script reaches after a checkpoint. ``given`` says that it receives the approved bytes.

    That is said where the script shows it: the version is listed in ``artifacts``, or the Agent's output stands in
    the task.
    """

    step_id: str
    kind: str
    line: int
    given: bool


class Row(msgspec.Struct, frozen=True):
    """One line on a terminal: its inert text, and where the bytes that it shows end in the whole."""

    text: str
    end: int


def checkpoint(view: RunView, step_id: str) -> StepView:
    """The checkpoint ``step_id`` of a run. Raises NotFound, and Conflict for a step of another kind."""
    step = next((item for item in view.steps if item.step_id == step_id), None)
    if step is None:
        known = ", ".join(item.step_id for item in view.steps if item.kind is StepKind.CHECKPOINT) or "none"
        raise NotFound(f"{view.run_id} has no step {step_id[:80]!r}; its checkpoints: {known}")
    if step.kind is not StepKind.CHECKPOINT:
        raise Conflict(f"{step_id} is no checkpoint but a step of kind {step.kind.value}; it is not decided")
    return step


def check_bytes(step: StepView, artifact: Artifact) -> None:
    """Raise Conflict unless the bytes are those that the checkpoint asks about."""
    digest = jsontext.sha256(artifact.body)
    if digest != step.artifact_version or artifact.version != step.artifact_version:
        raise Conflict(
            f"{step.step_id} asks about version {str(step.artifact_version)[:7]}, and the bytes that are kept "
            f"have the hash {digest[:7]}. Nothing can be decided about them"
        )


def next_steps(script: str, step: StepView) -> list[NextStep]:
    """The steps that stand after a checkpoint, or after an Agent's call, in the source, in the order of their places.

    A stepId that is put together while the script runs reads ``a step``. Nothing where the script cannot be
    parsed or the step has no place.
    """
    if step.line is None:
        return []
    from workflows_core.script.analysis import Analysis
    from workflows_core.script.approvals import Versions

    try:
        analysis = Analysis(script)
    except (ValueError, RecursionError):
        return []
    versions = Versions(analysis)
    given_of = step.input.get("sourceStepId") if isinstance(step.input, dict) else None
    source = step.step_id if step.kind is StepKind.AGENT else given_of
    found: list[tuple[tuple[int, int], NextStep]] = []
    for call in analysis.calls:
        place = analysis.source.position(call.node.start)
        if call.api.step is None or place <= (step.line, step.column or 0):
            continue
        listed = call.properties.get("artifacts")
        items = listed.children if listed is not None and listed.kind == "array" else []
        given = source is not None and (
            any(versions.step_of(item) == source for item in items)
            or _mentions(analysis, versions, call.node.field("arguments"), source)
        )
        name = analysis.step_id(call) or "a step"
        if name != step.step_id:
            found.append((place, NextStep(name, call.api.step, place[0], given)))
    return [one for _, one in sorted(found, key=lambda item: item[0])]


def _mentions(analysis: Analysis, versions: Versions, node: Node | None, source: str) -> bool:
    """Whether the output of the Agent ``source`` stands in ``node``: the whole result, or its ``output``."""
    for found in node.walk() if node is not None else ():
        if found.kind not in ("identifier", "shorthand_property_identifier"):
            continue
        binding = analysis.scopes.binding(found) if found.kind != "identifier" else None
        call = versions.result_of(binding.value if binding is not None else found)
        if call is None or call.api.step != "agent" or analysis.step_id(call) != source:
            continue
        around = found.parent
        name = around.field("property") if around is not None and around.kind == "member_expression" else None
        if name is None or analysis.text(name) == "output":
            return True
    return False


def renderer(artifact: Artifact) -> str:
    """How bytes can be shown as they are: ``json`` and ``text`` for UTF-8 text, else ``hex``."""
    try:
        text = artifact.body.decode("utf-8")
    except UnicodeDecodeError:
        return "hex"
    if "\0" in text:
        return "hex"
    return "json" if artifact.media_type == "application/json" and "\n" not in text else "text"


def rows(artifact: Artifact, columns: int) -> Iterator[Row]:
    """The whole of the bytes as lines of at most ``columns`` cells; every byte is in exactly one of them.

    Text is shown as it is, acting and invisible characters as symbols. JSON on one line gets line breaks and
    indents between its tokens and nothing else. The rest is a hex dump, which takes 75 cells a line.
    """
    how = renderer(artifact)
    if how == "hex":
        yield from _hex(artifact.body)
        return
    text = artifact.body.decode("utf-8")
    end = 0
    for indent, segment, hidden in _laid_out(text) if how == "json" else _lines(text):
        lead = " " * min(indent, max(columns - 20, 0))
        last = end + len(segment.encode("utf-8"))
        for piece, size in _wrapped(segment, max(columns - len(lead), 1)):
            end += size
            yield Row(lead + piece, end + hidden if end == last else end)
        end += hidden


def _lines(text: str) -> Iterator[tuple[int, str, int]]:
    """The lines of ``text`` without their line feeds, each a byte that its line shows by ending."""
    lines = text.split("\n")
    for line in lines[:-1]:
        yield 0, line, 1
    if lines[-1]:
        yield 0, lines[-1], 0


def _behind_blanks(text: str, start: int) -> int:
    """The place of the first character from ``start`` on that is no space."""
    while text[start : start + 1] == " ":
        start += 1
    return start


def _laid_out(text: str) -> Iterator[tuple[int, str, int]]:
    """JSON on one line, cut between its tokens: indent and exact piece. Spaces stay at the end of a piece."""
    depth = start = 0
    quoted = escaped = False
    for index, char in enumerate(text):
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "[{":
            if text[index + 1 : index + 2] not in ("]", "}"):
                end = _behind_blanks(text, index + 1)
                yield depth * _INDENT, text[start:end], 0
                start = end
            depth += 1
        elif char in "]}":
            if text[index - 1] not in "[{" and index > start:
                yield depth * _INDENT, text[start:index], 0
                start = index
            depth -= 1
        elif char == ",":
            end = _behind_blanks(text, index + 1)
            yield depth * _INDENT, text[start:end], 0
            start = end
    if start < len(text):
        yield depth * _INDENT, text[start:], 0


def _wrapped(text: str, columns: int) -> Iterator[tuple[str, int]]:
    """``text`` in inert pieces of at most ``columns`` cells, each with the number of bytes that it shows."""
    if text.isascii() and text.isprintable():
        for start in range(0, max(len(text), 1), columns):
            piece = text[start : start + columns]
            yield piece, len(piece)
        return
    shown: list[str] = []
    used = size = 0
    for char in text:
        visible = symbol(char)
        taken = cells(visible)
        if used + taken > columns and shown:
            yield "".join(shown), size
            shown, used, size = [], 0, 0
        shown.append(visible)
        used += taken
        size += len(char.encode("utf-8"))
    yield "".join(shown), size


def _hex(body: bytes) -> Iterator[Row]:
    for start in range(0, len(body), _HEX_ROW):
        chunk = body[start : start + _HEX_ROW]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in chunk)
        yield Row(f"{start:08x}  {chunk.hex(' '):<{_HEX_ROW * 3}} {text}", start + len(chunk))
