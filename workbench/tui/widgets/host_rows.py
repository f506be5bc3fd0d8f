"""What the sections of the Host screen show, as blocks of lines for a width."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from ... import words
from ...hostview import Diagnostic, ExtensionUse, HostEvent, HostView, SessionUse, StoreFile
from ...inert import cells, inert
from .host_blocks import Block, indented, labelled
from .json_rows import json_line, pretty
from .lines import Line, Span, fit

_MARKS: Final = {
    "loaded": words.Mark("✓", "+", "loaded", "good"),
    "failed": words.Mark("✗", "x", "failed", "bad"),
    "disabled": words.Mark("○", ".", "disabled", "quiet"),
    "configured": words.Mark("○", ".", "not loaded", "quiet"),
}
_TONES: Final = {"error": "bad", "warning": "waiting", "info": "quiet"}
#: Diagnostics and lines of an event that show without and with opening.
_LATEST: Final = 2
_EVENT_LINES: Final = 200
_EVENT_CHARACTERS: Final = 16_000


def extension_blocks(view: HostView, width: int, *, unicode: bool = True) -> list[Block]:
    """Each extension with what it contributed, its diagnostics and its longest hook; then the host's own."""
    name_width = min(28, max((cells(inert(each.name)) for each in view.extensions), default=0))
    blocks = [
        _extension(f"{number}:{each.use}", each, view.at, name_width, width, unicode=unicode)
        for number, each in enumerate(view.extensions)
    ]
    for generation, runs in view.older:
        text = f"version {generation} goes on for {', '.join(runs) or 'child runs that have not ended'}"
        blocks.append(
            Block(f"older:{generation}", (Span(inert(text), "waiting"),), (), (), "the runs", " ".join(runs))
        )
    if view.host:
        body, more = _diagnosed(view.host, view.at, width)
        value = "\n".join(each.message for each in view.host)
        blocks.append(Block("host", (Span("The host", "strong"),), body, more, "what the host says", value))
    return blocks


def _extension(
    id: str, extension: ExtensionUse, now: int, name_width: int, width: int, *, unicode: bool
) -> Block:
    mark = _MARKS.get(extension.outcome, words.Mark("?", "?", extension.outcome, "bad"))
    api = f"  contract {inert(extension.api)}" if extension.api else ""
    head = (
        Span(f"{mark.glyph if unicode else mark.ascii} ", mark.tone),
        Span(fit(extension.name, name_width), "strong"),
        Span(f"  {inert(mark.word)}", mark.tone),
        Span(api, "quiet"),
    )
    body = [*indented(extension.use, width, "quiet")]
    if extension.message:
        body += indented(extension.message, width, "waiting" if extension.outcome == "loaded" else "bad")
    for text in contributed(extension):
        body += labelled("contributes", text, width)
    if extension.longest_hook is not None:
        share = extension.longest_hook / 3
        tone = "bad" if share >= 1 else "waiting" if share >= 0.5 else ""
        hook = extension.longest_hook
        told = f"{hook * 1000:,.1f} ms of 3 s" if hook < 1 else f"{hook:.2f} s of 3 s"
        body += labelled("longest hook", told, width, tone)
    fresh = [each for each in extension.diagnostics if each.message != extension.message]
    latest, more = _diagnosed(fresh, now, width)
    value = "\n".join([extension.use, extension.message, *(each.message for each in extension.diagnostics)])
    return Block(id, head, [*body, *latest], more, f"what is known of {extension.name}", value, extension.use)


def contributed(extension: ExtensionUse) -> list[str]:
    """What an extension registered, by the methods of the registry, and its plugins; a line each."""
    lines = []
    if extension.contributions:
        lines.append(", ".join(f"{method} {number}" for method, number in extension.contributions.items()))
    for plugin in extension.plugins:
        parts = [f"plugin {plugin.get('namespace')}"]
        for what in ("actions", "tools"):
            if plugin.get(what):
                parts.append(f"{what} {', '.join(map(str, plugin[what]))}")
        lines.append("; ".join(parts))
    return lines


def _diagnosed(entries: Sequence[Diagnostic], now: int, width: int) -> tuple[list[Line], list[Line]]:
    """The latest diagnostics, newest first, and those before them."""
    found = [
        labelled(each.level, f"{each.message} ({words.ago(each.at, now)})", width, _TONES.get(each.level, ""))
        for each in reversed(entries)
    ]
    latest = [line for lines in found[:_LATEST] for line in lines]
    rest = [line for lines in found[_LATEST:] for line in lines]
    if rest:
        latest += labelled(
            "", f"{words.count(len(found) - _LATEST, 'earlier message')}: enter", width, "quiet"
        )
    return latest, rest


def session_blocks(view: HostView, width: int, *, unicode: bool = True) -> list[Block]:
    """Each session with what it may do."""
    return [_session(each, view.at, width, unicode=unicode) for each in view.sessions]


def _session(session: SessionUse, now: int, width: int, *, unicode: bool) -> Block:
    held = session.expires_at is None
    glyph = ("● " if unicode else "* ") if held else ("○ " if unicode else ". ")
    may = "may decide" if session.interactive else "may not decide: no interactive terminal"
    if session.mode == "disabled":
        may = "may not decide: authentication is disabled"
    if not held:
        may = "is not in use by the owner now"
    head = (
        Span(glyph, "running" if held else "quiet"),
        Span(inert(session.user_id), "strong"),
        Span(f"  {inert(session.mode)}", "quiet"),
        Span(f"  {may}"),
    )
    body = [*indented(session.description, width), *indented(session.session_id, width, "quiet")]
    if session.expires_at is not None:
        left = words.span(session.expires_at - now)
        body += indented(f"expires in {left} ({words.absolute(session.expires_at)})", width, "quiet")
    return Block(session.session_id, head, body, (), "the session's id", session.session_id)


def store_blocks(view: HostView, width: int) -> list[Block]:
    """Each file with its size."""
    return [_store(each, width) for each in view.stores]


def _store(store: StoreFile, width: int) -> Block:
    size = "not made yet" if store.size is None else words.kib(store.size)
    head = (Span(fit(store.name, 8), "strong"), Span(f"{size:>14}"))
    body = [*indented(store.meaning, width), *indented(str(store.path), width, "quiet")]
    return Block(store.name, head, body, (), "the path", str(store.path))


def event_blocks(view: HostView, width: int, *, unicode: bool = True) -> list[Block]:
    """The latest events, a line each; below an opened one its content."""
    size = min(20, max((cells(inert(each.agent)) for each in view.events), default=0))
    kinds = min(24, max((cells(_kind(each)) for each in view.events), default=0))
    return [_event(each, view.at, size, kinds, width, unicode=unicode) for each in view.events]


def _event(event: HostEvent, now: int, size: int, kinds: int, width: int, *, unicode: bool) -> Block:
    status = str(_metadata(event.metadata).get("status", ""))
    tone = "good" if status == "success" else "bad" if status else ""
    head: Line = (
        Span(f"{_age(now - event.at):>8}  ", "quiet"),
        Span(fit(_kind(event), kinds), tone),
        Span(f"  {fit(event.agent, size)}  ", "strong"),
        Span(inert(event.step_id)),
    )
    badge = f"  {inert(event.badge)}"
    if cells("".join(span.text for span in head)) + cells(badge) <= width:
        head = (*head, Span(badge, "quiet"))
    id = f"{event.thread_id}\t{event.seq}"
    return Block(
        id,
        head,
        (),
        partial(_opened, event),
        "the event",
        partial(_whole, event),
        run_id=event.workflow_run or None,
    )


def _document(event: HostEvent) -> dict[str, Any]:
    metadata = _metadata(event.metadata)
    return {
        "at": words.absolute(event.at),
        "run": event.workflow_run,
        "child_run": event.child_run_id,
        "thread": event.thread_id,
        "seq": event.seq,
        "category": event.category,
        "badge": event.badge,
        **({"metadata": metadata} if metadata else {}),
    }


def _opened(event: HostEvent) -> list[Line]:
    """An event in full, as far as it is shown."""
    content = event.content or ""
    text = content[:_EVENT_CHARACTERS]
    lines = pretty(_document(event))[1:-1]
    if content:
        lines += _content(text, whole=len(text) == len(content))
    shown: list[Line] = [(Span("    "), *json_line(line)) for line in lines[:_EVENT_LINES]]
    if len(lines) > _EVENT_LINES or len(text) < len(content):
        shown.append((Span("    the rest is cut off here; copying gives all of it", "quiet"),))
    return shown


def _whole(event: HostEvent) -> str:
    document = {**_document(event), "event_type": event.event_type, "content": _parsed(event.content or "")}
    return json.dumps(document, ensure_ascii=False)


def _kind(event: HostEvent) -> str:
    """The type, and how the child run ended where the event says so."""
    status = _metadata(event.metadata).get("status")
    return inert(event.event_type if status is None else f"{event.event_type} {status}")


def _content(text: str, *, whole: bool) -> list[str]:
    if not whole:
        return ['  "content":', *(f"    {text[at : at + 100]}" for at in range(0, len(text), 100))]
    return ['  "content":', *(f"    {line}" for line in pretty(_parsed(text)))]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text


def _metadata(text: str) -> Mapping[str, Any]:
    value = _parsed(text)
    if not isinstance(value, dict):
        return {}
    return {key: each for key, each in value.items() if key != "auth_token"}


def _age(micros: int) -> str:
    return " ".join(words.span(micros).split()[:2])
