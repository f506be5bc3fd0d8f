"""Loading extensions in a process of their own, to list them or to check one, without a host.

Whatever they do while they load (hang, end the process, write to standard output) happens there. As a program
this module is that process: it reads one JSON request on standard input and answers with one JSON document.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..workspace import Workspace
    from .config import PluginRecord

SECONDS: Final = 20.0


def check_extension(workspace: Workspace, record: PluginRecord, seconds: float = SECONDS) -> dict[str, Any]:
    """Load one record and look at what it registers.

    ``{use, loaded, problems: [{rule, severity, message}], contributions, plugins, api}``.
    """
    answer = _ask(workspace.root, "check", [record], seconds)
    if "ended" in answer:
        rule = "install.time" if answer["late"] else "install.ended"
        problem = {"rule": rule, "severity": "error", "message": answer["ended"]}
        answer = {"loaded": False, "problems": [problem], "contributions": {}, "plugins": [], "api": None}
    return {"use": record.use, **answer}


def list_extensions(workspace: Workspace, seconds: float = SECONDS) -> dict[str, Any]:
    """What the workspace's extensions are, as ``Extensions.describe`` has it, without starting anything.

    Raises ConfigurationError where one that is required cannot load, or one ends or holds up the process.
    """
    from workflows_core.errors import ConfigurationError

    answer = _ask(workspace.root, "list", workspace.config.plugins, seconds)
    problem = answer.get("ended") or answer.get("error")
    if problem is not None:
        raise ConfigurationError(problem)
    return answer


def _ask(root: Path, what: str, records: Sequence[PluginRecord], seconds: float) -> dict[str, Any]:
    """The answer of the process; ``{ended: sentence, late: bool}`` where there is none."""
    import msgspec

    request = json.dumps({"root": str(root), "what": what, "records": msgspec.to_builtins(list(records))})
    # -P: the current folder must not supply modules.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "workbench.host.checking"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(request.encode(), timeout=seconds)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return {"ended": f"loading did not end within {seconds:g} s", "late": True}
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        return {"ended": f"loading ended the process (code {process.returncode})", "late": False}
    return answer


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    import msgspec

    from .config import PluginRecord

    records = msgspec.convert(request["records"], list[PluginRecord])
    root = Path(request["root"])
    return _list(records, root) if request["what"] == "list" else _check(records[0], root)


def _list(records: list[PluginRecord], root: Path) -> dict[str, Any]:
    from workflows_core.errors import ConfigurationError

    from .describing import describe_record
    from .diagnostics import Diagnostics
    from .loader import HOST, load_extensions

    diagnostics = Diagnostics()
    try:
        loaded = load_extensions(records, root, diagnostics)
    except ConfigurationError as error:
        return {"error": error.message}

    def about(source: str) -> list[dict[str, Any]]:
        found = [entry for entry in diagnostics.all() if entry.source == source]
        return [{"level": entry.level, "message": entry.message, "at": entry.at} for entry in found]

    return {
        "generation": None,
        "extensions": [
            describe_record(each, loaded.snapshot)
            | {"longest_hook_seconds": None, "diagnostics": about(each.record.use)}
            for each in loaded.records
        ],
        "host": about(HOST),
        "older": [],
    }


def _check(record: PluginRecord, root: Path) -> dict[str, Any]:
    from .describing import describe_record
    from .diagnostics import name_of
    from .loader import LoadFailed, load_record
    from .registry import Collector
    from .shapes import Problem, shape_problems

    problems: list[Problem] = []
    collector = Collector()
    threads = threading.active_count()
    loaded_it = False
    described: dict[str, Any] = {"contributions": {}, "plugins": [], "api": None}
    try:
        loaded = load_record(record, 0, root, collector)
    except LoadFailed as failure:
        problems.append(Problem(failure.rule, "error", str(failure)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what the person asked about
        problems.append(Problem("install.ended", "error", f"loading raised {name_of(error)}"))
    else:
        loaded_it = True
        snapshot = collector.snapshot()
        described = {key: describe_record(loaded, snapshot)[key] for key in described}
        if loaded.marker is None:
            words = (
                "install declares no version of the contract, so nothing is checked; use @extension(api=…)"
            )
            problems.append(Problem("marker.missing", "warning", words))
        if not described["contributions"]:
            problems.append(Problem("install.nothing", "warning", "install registered nothing"))
        problems.extend(shape_problems(snapshot))
    if threading.active_count() > threads:
        words = "it starts a thread while it loads; start it in a service, which is stopped in order"
        problems.append(Problem("install.thread", "warning", words))
    return {
        "loaded": loaded_it,
        "problems": [vars(problem) for problem in problems],
        **described,
    }


def _main() -> None:
    """Answer one request. What is loaded writes to a file that is thrown away, not into the answer."""
    request = json.loads(sys.stdin.buffer.read())
    answer_to = os.dup(1)
    with tempfile.TemporaryFile() as swallowed:
        os.dup2(swallowed.fileno(), 1)
        answer = _answer(request)
        sys.stdout.flush()
        if swallowed.seek(0, os.SEEK_END) and "problems" in answer:
            words = "it writes to standard output while it loads, where the application draws; use logging"
            answer["problems"].append({"rule": "install.output", "severity": "warning", "message": words})
    with os.fdopen(answer_to, "w") as file:
        json.dump(answer, file)
    # Threads that an extension has started must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    _main()
