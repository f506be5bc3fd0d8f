"""Script files, launch arguments and the first script: what commands and screens share about them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from workflows_core import jsontext, limits
from workflows_core.errors import LimitExceeded, UsageError

from .inert import shorten

SCRIPT_SUFFIX: Final = ".workflow.js"
STUBS_SUFFIX: Final = ".stubs.yaml"
#: No file that is meant as an input is larger; a larger one is refused without being read.
READ_BYTES: Final = 1024 * 1024
#: The bundled examples, in the order in which one reads them.
EXAMPLES: Final = ("checks", "file-review", "pause")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


def read_script(path: Path) -> str:
    """The text of a script file, within the limit on scripts.

    Raises UsageError where it cannot be read, LimitExceeded where its JSON encoding is over the limit.
    """
    script = read_text(path, "the script")
    size = jsontext.size(script, "the script")
    if size > limits.SCRIPT_BYTES:
        raise LimitExceeded(
            f"{path} takes {size:,} bytes as JSON; a script may take {limits.SCRIPT_BYTES:,}. "
            "Move data into the arguments, or split the work over several scripts."
        )
    return script


def read_text(path: Path, what: str) -> str:
    """The UTF-8 text of a file. Raises UsageError with a sentence that starts with ``what``."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer that may never come.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(READ_BYTES + 1) or b""
    except FileNotFoundError:
        raise UsageError(f"{what} {path} does not exist; check the path") from None
    except IsADirectoryError:
        raise UsageError(f"{what} {path} is a folder; name a file in it") from None
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:
        raise UsageError(f"{what} {str(path)!r} is not a path") from None
    if len(data) > READ_BYTES:
        raise LimitExceeded(f"{what} {path} is larger than {READ_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path} is not UTF-8 text: byte {error.start} is invalid") from None


class RepeatedKey(UsageError):
    """An object of what a person gave has a key twice. ``place`` is line and column of the second, from 1."""

    def __init__(self, what: str, key: str, place: tuple[int, int]) -> None:
        super().__init__(
            f'{what} has the key "{shorten(key, 60)}" twice in one object; the second is at line {place[0]}, '
            f"column {place[1]}. Leave one of them out"
        )
        self.place = place


def parse_value(text: str, what: str) -> Any:
    """A value that a person gives as JSON text, no key of an object twice. Raises UsageError."""
    try:
        value = jsontext.parse(text, what)
        jsontext.encode(value, what)
    except jsontext.JsonRefused as error:
        raise UsageError(str(error)) from None
    repeated = jsontext.repeated_key(text)
    if repeated is not None:
        key, at = repeated
        raise RepeatedKey(what, key, (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)))
    return value


def parse_arguments(text: str, what: str = "the JSON of the arguments") -> dict[str, Any]:
    """Launch arguments from JSON text: an object within the limit, no key of an object twice.

    Raises UsageError, LimitExceeded.
    """
    value = parse_value(text, what)
    if not isinstance(value, dict):
        raise UsageError(f'{what} must be a JSON object, such as {{"product": "soap"}}')
    size = jsontext.size(value, what)
    if size > limits.ARGS_BYTES:
        raise LimitExceeded(f"{what} takes {size:,} bytes; {limits.ARGS_BYTES:,} are admitted")
    return value


def script_name(path: Path) -> str:
    """The name of a run of this script: the file's name without its suffix."""
    return path.name.removesuffix(SCRIPT_SUFFIX).removesuffix(".js") or path.name


def stubs_beside(path: Path) -> Path | None:
    """The stub set that belongs to a script by its name, where it exists."""
    stubs = path.with_name(script_name(path) + STUBS_SUFFIX)
    return stubs if stubs.is_file() else None


def example(name: str) -> str:
    """The text of a bundled example, such as ``checks.workflow.js``."""
    from importlib import resources

    return resources.files("workbench").joinpath("examples", name).read_text(encoding="utf-8")


def write_examples(folder: Path) -> list[tuple[Path, Path]]:
    """Copy the bundled examples into ``folder``: script and stub set of each, ``checks`` first.

    Raises UsageError where one of the files is there already.
    """
    return [_write_pair(folder, name, name) for name in EXAMPLES]


def write_starter(folder: Path, name: str = "first") -> tuple[Path, Path]:
    """Write a first script and its stub set as NAME.workflow.js and NAME.stubs.yaml; never overwrite.

    Raises UsageError where the name is not usable, one of the two exists already or cannot be written; then
    neither was written.
    """
    return _write_pair(folder, script_file(name).removesuffix(SCRIPT_SUFFIX), "first")


def script_file(name: str) -> str:
    """The file name of a new script called ``name``, its suffix given or not. Raises UsageError."""
    name = name.removesuffix(SCRIPT_SUFFIX)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a script: use letters, digits, dots, hyphens and underscores, at most 80"
        )
    return name + SCRIPT_SUFFIX


def _write_pair(folder: Path, name: str, source: str) -> tuple[Path, Path]:
    script, stubs = folder / (name + SCRIPT_SUFFIX), folder / (name + STUBS_SUFFIX)
    for path in (script, stubs):
        if os.path.lexists(path):
            raise UsageError(f"{path} exists already and was left as it is; choose another name")
    _write_new(script, example(source + SCRIPT_SUFFIX))
    try:
        _write_new(stubs, example(source + STUBS_SUFFIX))
    except UsageError:
        script.unlink()
        raise
    return script, stubs


def _write_new(path: Path, text: str) -> None:
    created = False
    try:
        with path.open("x", encoding="utf-8") as file:
            created = True
            file.write(text)
    except OSError as error:
        if created:
            path.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror or type(error).__name__}") from None
