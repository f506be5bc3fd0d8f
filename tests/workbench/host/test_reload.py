"""Reloading extensions in place: what changes, what stays, and what a live run keeps."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from extension_api.state import ExtensionData
from workbench.agents.base import Backend
from workbench.agents.stub import StubBackend
from workbench.host.modules import ModuleSwap, drop_values, reloadable
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import ConfigurationError, Conflict, NotFound, Refused, UsageError
from workflows_core.model import RunState

from .kit import options
from .lab import EXTENSION, SCRIPT, Lab, launch, open_lab, state_of, until


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path) as made:
        yield made


def test_new_code_is_used_and_the_old_is_stopped_and_forgotten(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one")
    host = lab.open()
    old = host.snapshot
    kind = sys.modules[lab.name("one")].Tally
    lab.child("a")
    assert host.app_store.get(kind) is not None
    lab.write("one", "v2")
    result = lab.reload(lab.use("one"))
    assert (result.reloaded, result.failed, result.runs) == ((lab.use("one"),), (), ())
    assert lab.log == ["one v1 start", "one v1 task lead_agent", "one v2 start", "one v1 stop"]
    assert host.app_store.get(kind) is None
    assert sys.modules[lab.name("one")].Tally is not kind
    assert host.app_store.get(sys.modules[lab.name("one")].Tally) is not None
    assert lab.call("one") == "v2"
    assert host.snapshot is not old and len(old.services) == 1
    lab.child("b")
    host.close()
    assert lab.log[4:] == ["one v2 task lead_agent", "one v2 stop"]


def test_an_edit_of_the_same_length_in_the_same_second_is_seen(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    lab.write("one", "v1")
    lab.configure("one")
    lab.open()
    for version in ("v2", "v3", "v4"):
        lab.write("one", version)
        os.utime(lab.root / f"{lab.name('one')}.py", (1_700_000_000, 1_700_000_000))
        lab.reload()
        assert lab.call("one") == version


def test_every_extension_is_reloaded_and_the_engine_is_not(lab: Lab) -> None:
    for short in ("one", "two"):
        lab.write(short, "v1")
    lab.configure("one", "two", engine=True)
    host = lab.open()
    service = host.app_store.get(WorkflowService)
    plan = host.plan_reload()
    assert plan.uses == (lab.use("one"), lab.use("two")) and plan.runs == ()
    assert lab.log == ["one v1 start", "two v1 start"]  # nothing has happened yet
    for short in ("one", "two"):
        lab.write(short, "v2")
    lab.reload()
    assert lab.log[2:] == ["one v2 start", "two v2 start", "two v1 stop", "one v1 stop"]
    assert host.app_store.get(WorkflowService) is service
    assert [source.source for source in host.snapshot.services] == [
        "workflows_core.extension:install",
        lab.use("one"),
        lab.use("two"),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("this is no Python", "SyntaxError"),
        ("def install(registry, config):\n    raise ValueError('half')", "install raised ValueError: half"),
        ("raise SystemExit(3)", "loading raised SystemExit: 3"),
        ("", "has no install"),
        (EXTENSION.replace("def install", "@extension(api='9.0', name='x')\ndef install"), "9.0"),
        (EXTENSION.replace('"test.NAME"', '"test.two"'), "test.two is already registered"),
    ],
    ids=["syntax", "install", "exit", "no install", "version", "namespace"],
)
def test_what_fails_to_load_stays_as_it_was(lab: Lab, body: str, words: str) -> None:
    lab.write("one", "v1")
    lab.write("two", "v1")
    lab.configure("one", "two")
    host = lab.open()
    before = sys.modules[lab.name("one")]
    lab.write("one", "v2", body)
    lab.write("two", "v2")
    result = lab.reload()
    assert result.reloaded == (lab.use("two"),)
    (failure,) = result.failed
    assert failure.use == lab.use("one") and words in failure.message
    assert lab.call("one") == "v1" and lab.call("two") == "v2"
    assert sys.modules[lab.name("one")] is before
    assert lab.outcomes() == [("one", "loaded", f"not reloaded: {failure.message}"), ("two", "loaded", "")]
    assert [entry.source for entry in host.diagnostics.all() if entry.level == "error"] == [lab.use("one")]
    assert "one v1 stop" not in lab.log
    lab.write("one", "v3")
    assert lab.reload(lab.use("one")).failed == ()
    assert lab.call("one") == "v3" and lab.outcomes()[0] == ("one", "loaded", "")


def test_a_reload_that_only_fails_makes_no_new_version(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one")
    host = lab.open()
    lab.write("one", "v2", "nonsense(")
    assert lab.reload().reloaded == ()
    assert host.describe_extensions()["generation"] == 1
    assert lab.outcomes()[0][2].startswith("not reloaded: importing")


def test_a_service_that_does_not_start_leaves_the_old_one_in_place(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one")
    lab.open()
    lab.write("one", "v2")
    lab.configure("one", one="{start: fails}")
    result = lab.reload()
    assert result.failed[0].message == "its service start raised ValueError: no start"
    assert lab.log == ["one v1 start", "one v2 start", "one v2 stop"]
    assert lab.call("one") == "v1"


def test_records_of_one_package_are_reloaded_together_or_not_at_all(lab: Lab) -> None:
    package = lab.root / lab.name("pair")
    package.mkdir()
    (package / "__init__.py").touch()
    for half in ("a", "b"):
        text = EXTENSION.replace("LOG", lab.name("log")).replace("NAME", half)
        (package / f"{half}.py").write_text(text.replace("VERSION", "v1"))
    lab.configure(extra=", ".join(
        f"{{name: {half}, use: '{lab.name('pair')}.{half}:install'}}" for half in ("a", "b")
    ))  # fmt: skip
    host = lab.open()
    uses = tuple(f"{lab.name('pair')}.{half}:install" for half in ("a", "b"))
    assert host.plan_reload("a").uses == uses
    (package / "a.py").write_text((package / "a.py").read_text().replace("v1", "v2"))
    good = (package / "b.py").read_text()
    (package / "b.py").write_text("raise ValueError('b')")
    assert lab.reload("a").reloaded == ()
    assert lab.call("a") == "v1"
    (package / "b.py").write_text(good.replace("v1", "v2"))
    assert lab.reload("a").reloaded == uses
    assert (lab.call("a"), lab.call("b")) == ("v2", "v2")


def test_the_file_is_read_again_for_what_is_reloaded(lab: Lab) -> None:
    for short in ("one", "two", "three"):
        lab.write(short, "v1")
    lab.configure("one", "two")
    host = lab.open()
    lab.configure("three", "two", two="{a: 1}")
    plan = host.plan_reload("three")
    assert plan.uses == (lab.use("three"),)
    assert plan.notes == (
        "the record two has changed and stays as it was loaded",
        "the record one was taken out of the file and stays loaded",
    )
    lab.reload("three")
    assert [name for name, _, _ in lab.outcomes()] == ["three", "two", "one"]
    plan = host.plan_reload("one")
    assert plan.uses == () and "the record one was taken out of the file and ends" in plan.notes
    lab.reload("one")  # it is not in the file any more
    assert [name for name, _, _ in lab.outcomes()] == ["three", "two"]
    assert lab.log[-1] == "one v1 stop" and lab.name("one") not in sys.modules
    with pytest.raises(NotFound):
        lab.call("one")
    lab.reload()
    assert sys.modules[lab.name("two")].CONFIG == {"a": 1}


def test_a_record_that_was_disabled_is_taken_away(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one")
    host = lab.open()
    kind = sys.modules[lab.name("one")].Tally
    lab.configure(extra=f"{{name: one, use: '{lab.use('one')}', enabled: false}}")
    result = lab.reload()
    assert (result.reloaded, result.notes) == ((), ("the record one is disabled now and ends",))
    assert lab.outcomes() == [("one", "disabled", "")]
    assert lab.log == ["one v1 start", "one v1 stop"]
    assert host.app_store.get(kind) is None and host.snapshot.services == ()
    lab.configure("one")
    lab.reload()
    assert lab.call("one") == "v1" and lab.log[-1] == "one v1 start"


def test_a_record_that_failed_at_the_start_can_be_put_right(lab: Lab) -> None:
    lab.write("one", "v1", "import nothing_of_that_name")
    lab.write("log_user", "v1")
    lab.configure("one", "log_user")
    lab.open()
    assert lab.outcomes()[0][1] == "failed"
    assert lab.reload("one").failed[0].use == lab.use("one")
    assert lab.outcomes()[0][1] == "failed"
    lab.write("one", "v2")
    assert lab.reload("one").reloaded == (lab.use("one"),)
    assert lab.call("one") == "v2"


def test_what_cannot_be_reloaded_is_said(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one", engine=True)
    host = lab.open()
    with pytest.raises(NotFound, match="no extension other:install"):
        host.plan_reload("other:install")
    with pytest.raises(Refused, match="part of the workbench") as caught:
        host.plan_reload("workflows")
    assert caught.value.code == "not_reloadable"
    (lab.root / "workbench.yaml").write_text("plugins: 3\n")
    with pytest.raises(ConfigurationError, match="cannot be read any more"):
        host.plan_reload()
    assert not reloadable("json:loads") and not reloadable("workbench.x:y") and reloadable("mine.x:y")


def test_an_extension_that_hangs_while_it_loads_holds_up_nothing(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one")
    host = lab.open()
    before = sys.modules[lab.name("one")]
    host.extensions._seconds = 0.6
    lab.write("one", "v2", "import LOG\nLOG.gate.wait(30)\n" + EXTENSION)
    result = lab.reload()
    assert "did not end within 0.3 s" in result.failed[0].message and result.failed[0].use == lab.use("one")
    assert lab.call("one") == "v1"
    lab.child()
    with pytest.raises(Conflict, match="another reload is going on, at reloaded_one"):
        lab.reload()
    lab.shared.gate.set()
    until(lambda: sys.modules.get(lab.name("one")) is before)
    host.extensions._seconds = 8
    until(lambda: host.extensions._loading is not None and not host.extensions._loading.busy)
    lab.reload()
    assert lab.call("one") == "v2"


def test_a_live_run_keeps_its_extensions_and_its_children_inherit_them(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one", engine=True)
    host = lab.open()
    service = host.app_store.get(WorkflowService)
    assert service is not None
    run_id = launch(host, SCRIPT, "first")
    until(lambda: state_of(host, run_id) is RunState.PAUSED)
    old = sys.modules[lab.name("one")].Tally
    lab.write("one", "v2")

    plan = host.plan_reload()
    assert [(run.run_id, run.state, run.note) for run in plan.runs] == [(run_id, "paused", "")]
    with pytest.raises(Refused, match=run_id):
        host.plan_reload("workflows")
    result = lab.reload()
    assert [run.run_id for run in result.runs] == [run_id]
    assert lab.log == ["one v1 start", "one v1 task lead_agent", "one v2 start"]
    assert host.describe_extensions()["older"] == [{"generation": 1, "runs": [run_id]}]

    other = launch(host, "return await agent({stepId: 'a', agentRef: 'lead_agent', task: 1});", "second")
    until(lambda: state_of(host, other) is RunState.COMPLETED)
    assert lab.log[3:] == ["one v2 task lead_agent"]

    host.submit(service.resume(run_id, "p", 1, host.session())).result(10)
    until(lambda: "one v1 stop" in lab.log)
    assert lab.log[4:] == ["one v1 task lead_agent", "one v1 stop"]
    assert state_of(host, run_id) is RunState.COMPLETED
    until(lambda: host.app_store.get(old) is None)
    assert host.describe_extensions()["older"] == []
    assert host.app_store.get(sys.modules[lab.name("one")].Tally) is not None


def test_a_run_over_two_reloads_keeps_what_it_began_with_and_the_end_stops_everything(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one", engine=True)
    host = lab.open()
    run_id = launch(host, SCRIPT, "first")
    until(lambda: state_of(host, run_id) is RunState.PAUSED)
    for version in ("v2", "v3"):
        lab.write("one", version)
        assert [run.run_id for run in lab.reload().runs] == [run_id]
    until(lambda: "one v2 stop" in lab.log)
    assert host.extensions.generations.of(run_id).number == 1
    host.close()
    assert [line for line in lab.log if "task" not in line] == [
        "one v1 start", "one v2 start", "one v3 start", "one v2 stop", "one v3 stop", "one v1 stop",
    ]  # fmt: skip


def test_the_plan_names_runs_whose_configuration_has_changed(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one", engine=True)
    host = lab.open()
    run_id = launch(host, SCRIPT, "first")
    until(lambda: state_of(host, run_id) is RunState.PAUSED)
    lab.configure("one", engine=True, one="{a: 1}")
    (run,) = host.plan_reload().runs
    assert run.note.startswith("the configuration has changed since its launch")


def test_evidence_compares_over_a_reload(lab: Lab) -> None:
    lab.write("one", "v1")
    lab.configure("one")
    host = lab.open()
    backend: Backend = StubBackend()
    first = host.assembler.assemble("lead_agent", backend, {}, options())
    lab.reload()
    second = host.assembler.assemble("lead_agent", backend, {}, options())
    assert first == second and host.assembler.latest["lead_agent"] == first.value


def test_commands_reach_the_host_through_the_engine(lab: Lab) -> None:
    from workflows_core.engine.controls import apply

    lab.write("one", "v1")
    lab.configure("one", engine=True)
    host = lab.open()
    service = host.app_store.get(WorkflowService)
    assert service is not None

    def control(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return host.submit(apply(service, kind, None, body, host.session())).result(10)

    listed = control("host.extensions", {})
    one = listed["extensions"][1]
    assert one["contributions"] == {"task_lifecycle": 1, "service": 1, "plugin": 1}
    assert one["plugins"][0]["actions"] == ["which"]
    lab.child()
    longest = control("host.extensions", {})["extensions"][1]["longest_hook_seconds"]
    assert 0 <= longest < 3
    assert control("host.plan_reload", {"use": "one"})["uses"] == (lab.use("one"),)
    assert control("host.reload", {"use": None})["reloaded"] == (lab.use("one"),)
    for kind, body in (("host.dance", {}), ("host.reload", {"use": 3})):
        with pytest.raises(UsageError):
            control(kind, body)


def test_only_values_of_the_old_types_are_dropped() -> None:
    source = "class Plain:\n    class Inner: pass\ndef make():\n    class Local:\n        def m(self): pass\n    return Local\n"
    name = "reloaded_types_0"

    def load() -> ModuleType:
        module = ModuleType(name)
        exec(compile(source, name, "exec"), module.__dict__)
        sys.modules[name] = module
        return module

    old = load()
    swap = ModuleSwap([name])
    swap.take()
    new = load()
    try:
        store = ExtensionData("app")
        for kind in (old.Plain, old.Plain.Inner, old.make(), new.Plain, new.make(), dict):
            store.set(kind())
        assert drop_values(store, swap) == 3
        assert store.get(new.Plain) is not None and store.get(dict) is not None
        assert store.get(old.Plain) is None and store.get(old.Plain.Inner) is None
    finally:
        swap.restore()
        assert sys.modules.pop(name) is old
