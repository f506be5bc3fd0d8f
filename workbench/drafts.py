"""Scripts in work, without a screen: drafts with their files, launch arguments, and what a session remembers.

A draft knows its text, what was saved, and how the file looked when it was last read or written, so that a
change by another program is noticed before it is overwritten. Undo belongs to the editor.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from extension_api.hashing import canonical_hash
from workflows_core import jsontext
from workflows_core.errors import Conflict, StoreFailed, UsageError
from workflows_core.limits import Limits
from workflows_core.model import new_id

from .inert import inert
from .scripts import SCRIPT_SUFFIX, RepeatedKey, parse_arguments, read_text

#: Launches that a session remembers.
REMEMBERED_LAUNCHES: Final = 200


class OnDisk(StrEnum):
    """How a draft's file stands against what the draft last read or wrote."""

    SAME = "same"
    CHANGED = "changed"
    GONE = "gone"


class Stamp(NamedTuple):
    """Identity, size and time of a file; a file with an equal stamp need not be read again."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Reading(NamedTuple):
    """A file's text and the stamp it had before it was read."""

    text: str
    stamp: Stamp | None


def read_file(path: Path) -> Reading:
    """Read a script file. Blocks; raises UsageError or LimitExceeded in words."""
    stamp = _stamp(path)
    return Reading(read_text(path, "the script"), stamp)


class Draft:
    """One script that is being written.

    ``text`` is the working copy, ``saved`` what its file last held as far as is known; None: there was no file.
    """

    def __init__(self, path: Path, reading: Reading | None = None, *, text: str = "") -> None:
        self.path = path
        self.text = text if reading is None else reading.text
        self.saved: str | None = None
        self._digest: str | None = None
        self._stamp: Stamp | None = None
        if reading is not None:
            self._note(*reading)

    @classmethod
    def open(cls, path: Path) -> Draft:
        """Read a script file. Blocks; raises UsageError or LimitExceeded in words."""
        return cls(path, read_file(path))

    @property
    def dirty(self) -> bool:
        """Whether the text differs from what the file last held."""
        return self.text != self.saved

    def on_disk(self) -> OnDisk:
        """Look at the file; it is read only where its stamp differs. Blocks, never raises."""
        stamp = _stamp(self.path)
        if stamp is None:
            return OnDisk.GONE
        if self._digest is None:
            return OnDisk.CHANGED
        if stamp == self._stamp:
            return OnDisk.SAME
        try:
            text = read_text(self.path, "the script")
        except UsageError:
            return OnDisk.CHANGED
        if _digest(text) != self._digest:
            return OnDisk.CHANGED
        self._stamp = stamp
        return OnDisk.SAME

    def accept(self, reading: Reading) -> None:
        """Take what was read of the file as working copy and as saved."""
        self.text = reading.text
        self._note(*reading)

    def save(self, *, overwrite: bool = False) -> None:
        """Write the text to the file, whole or not at all, keeping the file's mode. Blocks.

        Raises Conflict where another program changed the file since (not with ``overwrite``), UsageError where
        the text cannot be stored, StoreFailed where the disk refuses.
        """
        shown = inert(str(self.path))
        text = self.text
        if not overwrite and self.on_disk() is OnDisk.CHANGED:
            raise Conflict(
                f"{shown} was changed by another program since it was read here; "
                "reload it, or save again to replace it",
                code="changed_on_disk",
            )
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError("the script holds a lone surrogate, which is not text") from None
        try:
            stamp = _write_whole(self.path, data)
        except OSError as error:
            raise StoreFailed(
                f"{shown} cannot be written: {error.strerror or type(error).__name__}. The text is kept here"
            ) from None
        self._note(text, stamp)

    def _note(self, text: str, stamp: Stamp | None) -> None:
        self.saved = text
        self._digest = _digest(text)
        self._stamp = stamp


class VersionDraft(Draft):
    """A saved version that was opened. It never changes: text that differs from it is a working copy without a file.

    ``saved`` is the version's script, None until it was loaded; ``failure`` says why it could not be. ``path`` is
    where a script of this name would be, so that its stub set is found.
    """

    def __init__(self, root: Path, name: str, version: str, *, text: str = "") -> None:
        super().__init__(root / (name + SCRIPT_SUFFIX), text=text)
        self.name = name
        self.version = version
        self.failure = ""

    @property
    def definition(self) -> str:
        """``NAME@HASH`` with the whole hash, as a launch names it."""
        return f"{self.name}@{self.version}"

    @property
    def label(self) -> str:
        return version_label(self.name, self.version)

    @property
    def dirty(self) -> bool:
        """Whether the text was edited, which detaches it from the version."""
        return self.text != (self.saved or "")

    @property
    def attached(self) -> bool:
        """Whether the text is that of the version, so that a launch is one of the version."""
        return self.saved is not None and self.text == self.saved

    @property
    def blocked(self) -> bool:
        """Whether there is nothing to launch: the version is not loaded, and nothing was written instead."""
        return self.saved is None and not self.text

    def load(self, script: str) -> None:
        """Take the version's script. Raises StoreFailed where it is not the one that the hash names."""
        from workflows_core.script.source import script_hash

        if script_hash(script) != self.version:
            raise StoreFailed(f"the script that is stored for {self.label} is not the one its hash names")
        if self.saved is None and not self.text:
            self.text = script
        self.saved = script
        self.failure = ""

    def become(self, name: str, version: str) -> None:
        """The text was saved as this version."""
        self.path = self.path.with_name(name + SCRIPT_SUFFIX)
        self.name, self.version, self.saved, self.failure = name, version, self.text, ""

    def on_disk(self) -> OnDisk:
        return OnDisk.SAME

    def save(self, *, overwrite: bool = False) -> None:
        """A version has no file: see ``save_as``."""
        raise UsageError(f"{self.label} never changes; save the text as a script or as another version")

    def save_as(self, path: Path) -> Draft:
        """Write the text to a new script file and return its draft. Blocks.

        Raises UsageError where the file is there already or cannot be text, StoreFailed where the disk refuses.
        """
        if os.path.lexists(path):
            raise UsageError(f"{inert(path.name)} exists already and was left as it is; choose another name")
        draft = Draft(path, text=self.text)
        draft.save()
        return draft


def version_label(name: str, version: str) -> str:
    """``NAME@`` and the first 7 characters of the hash."""
    return f"{name}@{version[:7]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(path: Path) -> Stamp | None:
    try:
        return Stamp.of(path.stat())
    except (OSError, ValueError):
        return None


def _write_whole(path: Path, data: bytes) -> Stamp:
    """Replace the file's content by ``data`` through a temporary file beside it; links are followed."""
    target = Path(os.path.realpath(path))
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = None
    else:
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "it is read-only")
    temporary = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            stamp = Stamp.of(os.fstat(file.fileno()))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return stamp


class Arguments(NamedTuple):
    """Launch arguments as typed. ``value`` is None where they cannot be sent, and ``error`` says why.

    ``sent`` is the canonical JSON of ``value``. ``line`` and ``column``, from 1, are where the error stands.
    """

    value: dict[str, Any] | None
    sent: str = ""
    error: str = ""
    line: int | None = None
    column: int | None = None


def read_arguments(text: str) -> Arguments:
    """Read launch arguments; empty text means no arguments, ``{}``."""
    if not text.strip():
        return Arguments({}, "{}")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return Arguments(None, "", _decapitalised(error.msg), error.lineno, error.colno)
    except (ValueError, RecursionError):
        pass  # said in better words below
    try:
        value = parse_arguments(text)
    except UsageError as error:
        place = error.place if isinstance(error, RepeatedKey) else _place_of(text, error.message)
        return Arguments(None, "", error.message, *place)
    return Arguments(value, jsontext.encode(value).decode("utf-8"))


def _decapitalised(message: str) -> str:
    return message[:1].lower() + message[1:]


def _place_of(text: str, message: str) -> tuple[int, int]:
    """Where the token that ``message`` quotes stands in ``text``, else where the text starts."""
    for word in message.replace(",", " ").split():
        if len(word) >= 3 and (word.lstrip("-").isdigit() or word.strip("-") in ("NaN", "Infinity")):
            at = text.find(word)
            if at >= 0:
                break
    else:
        at = len(text) - len(text.lstrip())
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


class OpenScript(msgspec.Struct, kw_only=True):
    """What a session remembers of one open script. ``unsaved`` is its working copy where that differs.

    ``version`` is ``NAME@HASH`` of an opened version, which has no path of its own.
    """

    path: str
    line: int = 1
    column: int = 1
    unsaved: str | None = None
    version: str | None = None


class LaunchForm(msgspec.Struct, kw_only=True):
    """What stands in the launch pane for one script. ``stubs`` is a path in the workspace; None: the default."""

    arguments: str = ""
    real: bool = False
    stubs: str | None = None


class Launched(msgspec.Struct, kw_only=True):
    """The request that a launch of this content was given, and the run it made once that is known."""

    request_id: str
    run_id: str | None = None


class AuthorSession(msgspec.Struct, kw_only=True):
    """What the Author screen finds again at its next start. Paths are relative to the workspace where they can be.

    ``launches`` maps ``launch_key`` to its request, oldest first.
    """

    open: list[OpenScript] = []
    current: str | None = None
    forms: dict[str, LaunchForm] = {}
    launches: dict[str, Launched] = {}

    @classmethod
    def load(cls, value: Any) -> AuthorSession:
        """From a JSON value; whatever is not a session gives an empty one."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return cls()

    def dump(self) -> Any:
        """As a JSON value."""
        return msgspec.to_builtins(self)

    def absorb(self, other: AuthorSession) -> list[OpenScript]:
        """Take over what ``other`` has unsaved; what is unsaved here already, with another text, is returned."""
        kept = []
        for theirs in (item for item in other.open if item.unsaved is not None):
            ours = next((item for item in self.open if item.path == theirs.path), None)
            if ours is not None and ours.unsaved not in (None, theirs.unsaved):
                kept.append(theirs)
            elif ours is not None:
                self.open[self.open.index(ours)] = theirs
            else:
                self.open.append(theirs)
        for path, form in other.forms.items():
            self.forms.setdefault(path, form)
        return kept

    def request_for(self, key: str, *, again: bool = False) -> Launched:
        """The request of this content: the remembered one, or with ``again`` a new one."""
        known = None if again else self.launches.get(key)
        if known is None:
            known = Launched(request_id=new_id("req"))
        self.launches.pop(key, None)
        self.launches[key] = known
        while len(self.launches) > REMEMBERED_LAUNCHES:
            del self.launches[next(iter(self.launches))]
        return known


def launch_key(
    *,
    script: str,
    args: Any,
    name: str,
    options: Mapping[str, Any],
    agents: tuple[str, ...],
    of: Limits,
    definition: str | None = None,
) -> str:
    """Names the content of a launch: what a repeated request must match, so that equal keys share a request.

    ``definition`` is the version that is launched, if one is.
    """
    return canonical_hash(
        {
            **({} if definition is None else {"definition": definition}),
            "script": hashlib.sha256(script.encode("utf-8", "surrogatepass")).hexdigest(),
            "args": args,
            "name": name,
            "options": {key: value for key, value in options.items() if key != "label"},
            "agents": sorted(agents),
            "limits": msgspec.structs.asdict(of),
        }
    )
