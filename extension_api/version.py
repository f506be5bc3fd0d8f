"""The contract's version and the check of an extension's version marker (contract 0.1.0)."""

from __future__ import annotations

import re
from typing import Final

API_VERSION: Final = "0.2.9"
"""Version of the contract that this package implements."""

MARKER_ATTRIBUTE: Final = "__deerflow_api__"
NAME_ATTRIBUTE: Final = "__deerflow_name__"

_DISTRIBUTION = "deerflow-extension-api"
_DOTTED = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}")
_ABSENT = object()


class IncompatibleExtension(ValueError):
    """The version marker of an install function excludes this host.

    ``declared`` is what the marker says (in printable ASCII), ``host`` the host's contract version.
    """

    def __init__(self, message: str, *, declared: str, host: str) -> None:
        super().__init__(message)
        self.message = message
        self.declared = declared
        self.host = host


def parse_version(text: object) -> tuple[int, ...] | None:
    """The numbers of a dotted numeric string without trailing zeros, or None for anything else."""
    if not isinstance(text, str) or _DOTTED.fullmatch(text) is None:
        return None
    numbers = [int(part) for part in str.__str__(text).split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def compatible_range(host: str = API_VERSION) -> str:
    """The requirement, in pip's notation, that admits every contract release compatible with ``host``."""
    major, minor = _series(_host_numbers(host))
    if major == 0:
        return f"{_DISTRIBUTION}>=0.{minor},<0.{minor + 1}"
    return f"{_DISTRIBUTION}>={major},<{major + 1}"


def check_api_marker(install: object, host: str = API_VERSION) -> str | None:
    """Compare the version marker of ``install`` with the host's version; return the marker.

    None means that there is no marker, and then nothing is checked. The marker may be a property that
    raises; that counts as a marker which is not a version. Before 1.0 the declared version must have the
    host's major and minor number, from 1.0 on its major number, and must not be newer than the host.

    Raises IncompatibleExtension in every other case.
    """
    host_numbers = _host_numbers(host)
    try:
        marker = getattr(install, MARKER_ATTRIBUTE, _ABSENT)
    except Exception as error:
        kind = ascii(type(error).__name__)[1:-1]
        raise IncompatibleExtension(
            f"The version marker of the extension cannot be read ({kind}); the host has {host}. "
            f"Declare @extension(api={host!r}) and the requirement {compatible_range(host)}.",
            declared="unreadable",
            host=host,
        ) from error
    if marker is _ABSENT:
        return None
    declared = parse_version(marker)
    if declared is None or not isinstance(marker, str):
        shown = _shown(marker)
        raise IncompatibleExtension(
            f"The extension declares contract {shown}, which is not a dotted numeric version; the host has "
            f"{host}. Declare @extension(api={host!r}) and the requirement {compatible_range(host)}.",
            declared=shown,
            host=host,
        )
    length = 2 if host_numbers[0] == 0 else 1
    same_series = _series(declared)[:length] == _series(host_numbers)[:length]
    marker = str.__str__(marker)
    if same_series and declared <= host_numbers:
        return marker
    why = "it is newer than the host" if same_series else "the two are not compatible"
    raise IncompatibleExtension(
        f"The extension declares contract {marker} and the host has {host}: {why}. "
        f"Install a release of the extension that fits {compatible_range(host)} and declares at most {host}.",
        declared=marker,
        host=host,
    )


def _host_numbers(host: str) -> tuple[int, ...]:
    numbers = parse_version(host)
    if numbers is None:
        raise ValueError(f"the host's version must be a dotted numeric string, not {host!r}")
    return numbers


def _series(numbers: tuple[int, ...]) -> tuple[int, int]:
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def _shown(marker: object) -> str:
    if isinstance(marker, str):
        text = ascii(str.__str__(marker))
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a value of type {ascii(type(marker).__name__)[1:-1]}"
