"""``extension list``, ``check`` and ``reload``, with and without a workbench that owns the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.cli.conftest import Command
from tests.workbench.host.lab import SCRIPT, Lab, launch, open_lab, state_of, until
from workbench.host.checking import _check, check_extension, list_extensions
from workbench.host.config import PluginRecord
from workbench.workspace import Workspace
from workflows_core.errors import ConfigurationError
from workflows_core.model import RunState


@pytest.fixture
def lab(folder: Path) -> Iterator[Lab]:
    with open_lab(folder) as made:
        yield made


def rules(report: Any) -> list[tuple[str, str]]:
    return [(problem["rule"], problem["severity"]) for problem in report["problems"]]


def test_without_an_owner_everything_is_loaded_aside(lab: Lab, command: Command) -> None:
    lab.write("one", "v1")
    lab.write("two", "v1", "nonsense(")
    lab.configure("one", "two", engine=True)
    result = command("extension", "list", "--json")
    assert (result.status, result.document["running"], result.document["generation"]) == (0, False, None)
    engine, one, two = result.document["extensions"]
    assert engine["plugins"][0]["namespace"] == "community.workflows" and engine["api"] == "0.2.9"
    assert one["contributions"] == {"task_lifecycle": 1, "service": 1, "plugin": 1}
    assert (two["outcome"], two["contributions"]) == ("failed", {})
    assert "SyntaxError" in two["message"]
    assert [entry["level"] for entry in two["diagnostics"]] == ["error"]
    assert not (lab.root / ".workbench").exists()  # nothing was started or written
    text = command("extension", "list").out
    assert "one  + loaded" in text.replace("✓", "+") and "task_lifecycle 1, service 1, plugin 1" in text
    assert "plugin test.one; actions which" in text


def test_a_list_names_a_required_extension_that_fails(lab: Lab, command: Command) -> None:
    lab.write("one", "v1", "import os\nos._exit(3)")
    lab.configure("one")
    result = command("extension", "list", "--json")
    assert result.status == 6
    assert result.document["error"]["message"] == "loading ended the process (code 3)"
    lab.configure(extra="{name: x, use: 'nothing_here:install', required: true}")
    with pytest.raises(ConfigurationError, match="there is no module nothing_here"):
        list_extensions(Workspace.find(explicit=lab.root))


PLAIN = "from deerflow_extension_api import *\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("nonsense(", [("use.import", "error")]),
        ("install = 3", [("use.callable", "error")]),
        ("", [("use.attribute", "error")]),
        ("raise SystemExit(3)", [("install.ended", "error")]),
        ("import os\nos._exit(0)", [("install.ended", "error")]),
        ("def install(r, c):\n    raise ValueError('x' * 5000)", [("install.raised", "error")]),
        ("async def install(r, c): pass", [("install.async", "error")]),
        ("def install(r, c): pass", [("marker.missing", "warning"), ("install.nothing", "warning")]),
        (PLAIN + "@extension(api='0.3.0')\ndef install(r, c): pass", [("marker", "error")]),
        (
            PLAIN + "@extension(api='0.2')\ndef install(r, c): r.plugin(PluginContribution('Bad', 't'))",
            [("namespace", "error")],
        ),
        (
            PLAIN + "def f(): f()\n@extension(api='0.2')\ndef install(r, c): f()",
            [("install.raised", "error")],
        ),
        (
            PLAIN + "class S:\n    def start(self, deps): pass\n    async def stop(self, now): pass\n"
            "@extension(api='0.2')\ndef install(r, c):\n    print('hi')\n    r.service(S())\n    r.service(3)",
            [("shape.async", "error"), ("shape.arguments", "error"), ("shape.method", "error"),
             ("shape.method", "error"), ("install.output", "warning")],
        ),
        (
            PLAIN + "import threading\nclass W(MiddlewareContributor): pass\n"
            "@extension(api='0.2')\ndef install(r, c):\n    r.middlewares(W())\n"
            "    threading.Thread(target=threading.Event().wait).start()",
            [("install.thread", "warning")],
        ),
        (
            PLAIN + "class Mount:\n    path = '/x'\nclass R:\n    routes = [Mount()]\n    on_startup = [1]\n"
            "class E:\n    routes = []\n@extension(api='0.2')\ndef install(r, c): r.routers([R(), E()])",
            [("routers", "error")] * 3,
        ),
    ],
    ids=["syntax", "callable", "attribute", "exit", "_exit", "raises", "async", "nothing", "marker", "namespace",
         "recursion", "shapes", "thread", "routers"],
)  # fmt: skip
def test_every_problem_is_reported_with_its_rule(
    lab: Lab, command: Command, body: str, found: list[tuple[str, str]]
) -> None:
    lab.write("one", "v1", body)
    if "_exit" in body or "print" in body or "Thread" in body:  # what only a process of its own survives
        result = command("extension", "check", lab.use("one"), "--json")
        report, status = result.document, result.status
        assert status == (1 if "error" in dict(found).values() else 0)
    else:
        report = _check(PluginRecord(name="one", use=lab.use("one")), lab.root)
    assert rules(report) == found
    assert all(problem["message"] for problem in report["problems"])


def test_an_extension_that_hangs_is_ended(lab: Lab) -> None:
    lab.write("one", "v1", "import time\ntime.sleep(60)")
    record = PluginRecord(name="one", use=lab.use("one"))
    report = check_extension(Workspace.find(explicit=lab.root), record, seconds=1.5)
    assert rules(report) == [("install.time", "error")]
    assert report["problems"][0]["message"] == "loading did not end within 1.5 s"


def test_a_check_takes_the_record_of_the_file(lab: Lab, command: Command) -> None:
    lab.write(
        "one", "v1", PLAIN + "@extension(api='0.2')\ndef install(r, c):\n    raise ValueError(c['key'])"
    )
    lab.configure("one", one="{key: from the file}")
    result = command("extension", "check", "one")
    assert result.status == 1
    assert result.out == "error  install raised ValueError: from the file  install.raised\n"
    assert command("extension", "check", "neither").status == 2
    assert command("extension", "check", "neither nor:x").status == 2


def test_a_sound_extension_has_no_problems(lab: Lab, command: Command) -> None:
    lab.write("one", "v1", EXTENSION_WITH_MARKER)
    result = command("extension", "check", lab.use("one"))
    assert (result.status, result.out.splitlines()[-1]) == (0, "No problems.")


EXTENSION_WITH_MARKER = (
    PLAIN + "class Hooks(TaskLifecycleContributor): pass\n"
    "@extension(api='0.2.4', name='sound')\ndef install(r, c): r.task_lifecycle(Hooks())"
)


def test_a_reload_needs_somebody_who_runs(lab: Lab, command: Command) -> None:
    result = command("extension", "reload", "--json")
    assert (result.status, result.document["error"]["code"]) == (2, "not_running")


def test_the_owner_lists_and_reloads_and_says_which_runs_it_concerns(lab: Lab, command: Command) -> None:
    lab.write("one", "v1")
    lab.configure("one", engine=True)
    host = lab.open()
    run_id = launch(host, SCRIPT, "first")
    until(lambda: state_of(host, run_id) is RunState.PAUSED)
    listed = command("extension", "list", "--json").document
    assert (listed["running"], listed["generation"], listed["older"]) == (True, 1, [])
    assert listed["extensions"][1]["longest_hook_seconds"] >= 0

    lab.write("one", "v2")
    run = {"run_id": run_id, "name": "n", "state": "paused", "note": None}
    preview = command("extension", "reload", "--preview", "--json")
    assert preview.document == {"uses": [lab.use("one")], "runs": [run], "notes": []}
    assert lab.call("one") == "v1"
    text = command("extension", "reload", "--preview").err
    assert f"{run_id}  n is paused: it keeps the old version" in text
    result = command("extension", "reload", "one", "--json")
    assert result.document == {"reloaded": [lab.use("one")], "failed": [], "runs": [run], "notes": []}
    assert lab.call("one") == "v2"
    assert command("extension", "list", "--json").document["older"] == [{"generation": 1, "runs": [run_id]}]
    assert run_id in command("extension", "list").out

    lab.write("one", "v3", "nonsense(")
    failed = command("extension", "reload")
    assert failed.status == 1 and f"failed    {lab.use('one')}: importing" in failed.out
    refused = command("extension", "reload", "workflows", "--json")
    assert (refused.status, refused.document["error"]["code"]) == (7, "not_reloadable")
    assert run_id in refused.document["error"]["message"]
    assert command("extension", "reload", "nobody").status == 2
