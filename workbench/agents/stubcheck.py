"""The rules for one entry of a stub set, each broken one reported with its line and what to write."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final, NoReturn

from ..yamltext import Document, Path, Section, json_bytes, kind_of

ANSWERS: Final = ("reply", "replies", "fail", "needs_input", "hang")
SYSTEM_KINDS: Final = ("title", "goal", "memory", "summarization")

AFTER_SECONDS: Final = 86_400
FILE_BYTES: Final = 2 * 1024 * 1024
FILES: Final = 16
EVENTS: Final = 32
TURNS: Final = 1_000_000

_HASH = re.compile(r"[0-9a-f]{64}")
#: What the code of a failure looks like.
CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_BASE64 = "base64:"


def check_entry(document: Document, path: Path, item: Any) -> None:
    """Raise YamlRefused about the first thing in the entry at ``path`` that is not right."""
    entry = Section(document, path, item, "a stub entry")
    for key in ("agent", "step"):
        if entry.text(key, "*") and len(entry.take(key, "*")) > 200:
            entry.refuse(key, "is longer than 200 characters")
    _json(entry, "task")
    _request(entry)
    _turn(entry)
    _answer(entry)
    _code(entry)
    _after(entry)
    _files(entry)
    _system(entry)
    _compact(entry)
    _subagents(entry)
    entry.done()
    given = [key for key in ANSWERS if key in entry]
    if len(given) != 1:
        choices = "reply, replies, fail, needs_input or hang"
        if not given:
            document.refuse(path, f"says no answer; give one of {choices}")
        entry.refuse(given[1], f"cannot stand beside {given[0]}; give one of {choices}")


def _answer(entry: Section) -> None:
    _json(entry, "reply")
    replies = entry.list("replies", "replies")
    if "replies" in entry and not replies:
        entry.refuse("replies", "must hold at least one reply")
    _json(entry, "replies")
    for key in ("fail", "needs_input"):
        if key in entry:
            entry.text(key)
        else:
            entry.take(key)
    if "hang" in entry and entry.take("hang") is not True:
        entry.refuse("hang", "can only be true; leave it out otherwise")
    entry.take("hang")


def _code(entry: Section) -> None:
    code = entry.take("code")
    if "code" not in entry:
        return
    if not isinstance(code, str) or CODE.fullmatch(code) is None:
        entry.refuse("code", "must be up to 64 lower-case letters, digits and underscores, a letter first")
    if "fail" not in entry:
        entry.refuse("code", "belongs to a failure: it stands beside fail")


def _request(entry: Section) -> None:
    value = entry.take("request")
    if "request" in entry and (not isinstance(value, str) or _HASH.fullmatch(value) is None):
        entry.refuse("request", "must be the SHA-256 of a recorded request: 64 hexadecimal digits")


def _turn(entry: Section) -> None:
    turn = entry.take("turn")
    if "turn" not in entry:
        return
    if not isinstance(turn, int) or isinstance(turn, bool) or not 1 <= turn <= TURNS:
        entry.refuse(
            "turn", f"must be a whole number from 1 to {TURNS:,}: the batch in which the answer came"
        )
    if "request" not in entry:
        entry.refuse("turn", "belongs to a recorded answer: it needs the hash of its request beside it")


def _after(section: Section) -> None:
    section.number("after", 0, low=0, high=AFTER_SECONDS)


def _files(entry: Section) -> None:
    files = entry.section("files", "files")
    items = list(files.items())
    if len(items) > FILES:
        entry.refuse("files", f"holds {len(items)} files; admitted are {FILES}")
    for name, content in items:
        problem = path_problem(name)
        if problem is not None:
            files.refuse(name, problem)
        if not isinstance(content, str):
            files.refuse(name, f"must be text or 'base64:…', not {kind_of(content)}")
        json_bytes(entry.document, (*files.path, name), content)
        try:
            size = len(decode_file(content))
        except ValueError:
            files.refuse(name, "starts with 'base64:' and what follows is not base64")
        if size > FILE_BYTES:
            files.refuse(name, f"is {size:,} bytes; admitted are {FILE_BYTES:,}")


def decode_file(content: str) -> bytes:
    """The bytes of one entry of ``files``: the text in UTF-8, or what stands behind ``base64:``."""
    if not content.startswith(_BASE64):
        return content.encode("utf-8")
    try:
        return base64.b64decode("".join(content[len(_BASE64) :].split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not base64") from error


def path_problem(name: str) -> str | None:
    """What is wrong with the name of a file inside a child's folder, or None."""
    if not name or "\0" in name or "\\" in name or len(name) > 400:
        return "is not usable as the name of a file"
    if any(part in ("", ".", "..") for part in name.removeprefix("/").split("/")):
        return "must be a plain path inside the folder of the child, without '.' and '..'"
    return None


def _system(entry: Section) -> None:
    for section in _parts(entry, "system", "system model calls"):
        section.choice("kind", None, SYSTEM_KINDS)
        _json(section, "reply")
        if "fail" in section:
            section.text("fail")
        section.take("fail")
        _after(section)
        section.done()
        if ("reply" in section) == ("fail" in section):
            _refuse(section, "needs either reply or fail")


def _compact(entry: Section) -> None:
    if "compact" not in entry:
        entry.take("compact")
        return
    section = entry.section("compact", "compact")
    messages = section.list("messages", "message contents")
    if not messages:
        _refuse(section, "needs messages: the contents that were folded into the summary")
    if "summary" not in section:
        _refuse(section, "needs summary: what became of the messages")
    _json(section, "messages")
    _json(section, "summary")
    kept = section.take("kept", 0)
    if isinstance(kept, bool) or not isinstance(kept, int) or not 0 <= kept <= 100_000:
        section.refuse("kept", f"must be a whole number from 0 to 100,000, not {kind_of(kept)}")
    section.text("kind", "summarization")
    section.text("version", "1")
    section.done()


def _subagents(entry: Section) -> None:
    for section in _parts(entry, "subagents", "subagents"):
        section.text("agent")
        for key in ("tool_call", "fail"):
            if key in section:
                section.text(key)
            section.take(key)
        _after(section)
        section.done()


def _parts(entry: Section, key: str, what: str) -> list[Section]:
    items = entry.list(key, what)
    if len(items) > EVENTS:
        entry.refuse(key, f"holds {len(items)} entries; admitted are {EVENTS}")
    name = f"an entry of {key}"
    return [Section(entry.document, (*entry.path, key, i), item, name) for i, item in enumerate(items)]


def _json(section: Section, key: str) -> None:
    """Refuse a value that cannot be kept as JSON; any kind of JSON is right."""
    if key in section:
        json_bytes(section.document, (*section.path, key), section.take(key))
    else:
        section.take(key)


def _refuse(section: Section, message: str) -> NoReturn:
    section.document.refuse(section.path, message)
