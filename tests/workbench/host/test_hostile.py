"""Hostile extensions on the whole host: a run goes on to its end, its neighbours are told everything, and the
culprit is named."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.host import assembly, notifications
from workbench.host.host import LocalHost
from workflows_core.engine.requests import LaunchRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import WorkflowError
from workflows_core.model import RunState, RunView

from .kit import options
from .lab import Lab, open_lab, until

#: Registers everything and writes down what it is told.
GOOD = """
from deerflow_extension_api import *
from LOG import log

class Good:
    async def on_task_start(self, app_store, task_store, info):
        log.append(("NAME", "start", info.kind, info.agent_name))
    async def on_task_stop(self, app_store, task_store, info, outcome):
        log.append(("NAME", "stop", info.kind, outcome.value))
    async def on_system_model_call(self, app_store, task_store, kind, request, result):
        log.append(("NAME", "system", request.messages, result.response))
    async def on_context_compacted(self, app_store, task_store, event):
        log.append(("NAME", "compacted", event.compacted_message_count))
    def on_agent_assembled(self, app_store, descriptor):
        log.append(("NAME", "assembled", descriptor.agent_name, len(descriptor.middlewares)))
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(Plain(), Placement.STANDARD)]
    async def start(self, deps):
        log.append(("NAME", "service start"))
    async def stop(self):
        log.append(("NAME", "service stop"))

class Plain:
    pass

def install(registry, config):
    good = Good()
    registry.task_lifecycle(good)
    registry.system_model_observer(good)
    registry.agent_assembly_observer(good)
    registry.context_compaction_observer(good)
    registry.middlewares(good)
    registry.service(good)
"""

#: Everything that Good registers, with hooks that a test replaces.
BAD = (
    GOOD.replace("class Good:", "class Base:")
    .replace("good = Good()", "good = Bad()")
    .replace("def install", "BODY\n\ndef install")
)

ENTRY = {
    "reply": {"n": 1},
    "system": [{"kind": "title", "reply": {"t": [1]}}],
    "compact": {"messages": ["a", "b"], "summary": "ab"},
    "subagents": [{"agent": "reader"}],
}
TOLD = [
    ("start", "lead", "lead_agent"),
    ("assembled", "lead_agent"),
    ("system", (7,), {"t": [1]}),
    ("start", "subagent", "reader"),
    ("assembled", "reader"),
    ("stop", "subagent", "completed"),
    ("stop", "lead", "completed"),
]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Lab]:
    caplog.set_level(logging.CRITICAL)  # the tracebacks of all these
    # Good extensions are not named because the machine is slow; a test that is about slowness says from when on.
    monkeypatch.setattr(notifications, "SLOW_SECONDS", 3_600.0)
    monkeypatch.setattr(assembly, "BLOCKING_SECONDS", 3_600.0)
    with open_lab(tmp_path) as made:
        yield made


def opened(lab: Lab, body: str, *, budget: float = 60.0) -> LocalHost:
    """A host with a good extension before the hostile one and another after it."""
    lab.write("first", "v1", GOOD)
    lab.write("last", "v1", GOOD)
    lab.write("bad", "v1", body)
    lab.configure("first", "bad", "last", engine=True)
    host = lab.open()
    host.extensions.generations.current.notifier._batch_seconds = budget
    return host


def bad(methods: str, before: str = "") -> str:
    return BAD.replace("BODY", f"{before}\nclass Bad(Base):\n{methods}")


def run(host: LocalHost) -> RunView:
    """One workflow run to its end."""
    service = host.app_store.get(WorkflowService)
    assert service is not None
    session = host.session()
    script = "return (await agent({stepId: 'a', agentRef: 'lead_agent', task: 7})).output;"
    asked = LaunchRequest(script=script, args={}, name="n", request_id="r", options=options(ENTRY))
    run_id = host.submit(service.launch(asked, session)).result(60).run_id

    def view() -> RunView:
        return host.submit(service.inspect(run_id, session)).result(60)

    until(lambda: view().state.final)
    return view()


def heard(lab: Lab, name: str) -> list[tuple[Any, ...]]:
    """What a good extension was told of the run, compaction apart: that is told off the path."""
    told = [entry[1:] for entry in lab.log if entry[0] == name]
    kept = [entry for entry in told if entry[0] not in ("compacted", "service start", "service stop")]
    return [entry[:2] if entry[0] == "assembled" else entry for entry in kept]


def named(lab: Lab, host: LocalHost) -> list[tuple[str, str]]:
    """The diagnostics, which must all be about the hostile extension."""
    found = [entry for entry in host.diagnostics.all() if entry.level != "info"]
    assert {entry.source for entry in found} <= {lab.use("bad"), sources(lab)}, found
    return [(entry.level, entry.message) for entry in found]


def sources(lab: Lab) -> str:
    """Where hooks are measured together, all their contributors are named."""
    return ", ".join(lab.use(short) for short in ("first", "bad", "last"))


def check_neighbours(lab: Lab, host: LocalHost, view: RunView) -> None:
    assert (view.state, view.result) == (RunState.COMPLETED, {"n": 1})
    until(lambda: {("first", "compacted", 2), ("last", "compacted", 2)} <= set(map(_hashable, lab.log)))
    for name in ("first", "last"):
        assert heard(lab, name) == TOLD


def _hashable(entry: tuple[Any, ...]) -> tuple[Any, ...]:
    return entry if entry[1] == "compacted" else ()


def test_without_a_hostile_one(lab: Lab) -> None:
    host = opened(lab, GOOD)
    check_neighbours(lab, host, run(host))
    assert named(lab, host) == []
    assert heard(lab, "bad") == TOLD


def test_one_that_raises_after_registering_is_undone(lab: Lab) -> None:
    host = opened(lab, GOOD + "\n    raise ValueError('too late')\n")
    check_neighbours(lab, host, run(host))
    assert named(lab, host) == [("error", "install raised ValueError: too late")]
    assert not [entry for entry in lab.log if entry[0] == "bad"]


HOOKS = {
    "on_task_start": "self, app_store, task_store, info",
    "on_task_stop": "self, app_store, task_store, info, outcome",
    "on_system_model_call": "self, app_store, task_store, kind, request, result",
    "on_context_compacted": "self, app_store, task_store, event",
    "on_agent_assembled": "self, app_store, descriptor",
    "contribute_middlewares": "self, app_store, ctx",
    "start": "self, deps",
    "stop": "self",
}
PLAIN = ("on_agent_assembled", "contribute_middlewares")


def hook(name: str, body: str) -> str:
    kind = "def" if name in PLAIN else "async def"
    return f"    {kind} {name}({HOOKS[name]}):\n        {body}"


@pytest.mark.parametrize("error", ["ValueError('x')", "SystemExit(3)", "KeyboardInterrupt()", "Odd()"])
def test_one_that_raises_in_every_hook(lab: Lab, error: str) -> None:
    odd = "class Odd(BaseException):\n    def __str__(self): raise RuntimeError('no text')"
    # A service contains an Exception only: see test_services.
    hooks = [name for name in HOOKS if error.startswith("ValueError") or name not in ("start", "stop")]
    host = opened(lab, bad("\n".join(hook(name, f"raise {error}") for name in hooks), odd))
    check_neighbours(lab, host, run(host))
    host.close()
    messages = [message for _, message in named(lab, host)]
    kind = error.partition("(")[0]
    for name in hooks:
        assert any(message.startswith(f"{name} raised {kind}") for message in messages), name
    assert ("last", "service stop") in lab.log and ("first", "service stop") in lab.log


@pytest.mark.parametrize("name", ["on_task_start", "on_task_stop"])
def test_a_hook_that_hangs_spends_the_budget_of_its_batch(lab: Lab, name: str) -> None:
    host = opened(lab, bad(hook(name, "import asyncio; await asyncio.Event().wait()")), budget=1.0)
    view = run(host)
    assert (view.state, view.result) == (RunState.COMPLETED, {"n": 1})
    found = {(entry.source, entry.message) for entry in host.diagnostics.all() if entry.level == "warning"}
    assert found == {
        (lab.use("bad"), f"{name} was stopped, the budget was spent"),
        (lab.use("last"), f"{name} was skipped, the budget was spent: {lab.use('last')}"),
    }
    assert [entry[0] for entry in heard(lab, "first")] == [entry[0] for entry in TOLD]


def test_an_observer_without_a_budget_is_named_while_it_hangs_and_a_cancel_goes_through(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "SLOW_SECONDS", 0.5)
    host = opened(lab, bad(hook("on_system_model_call", "import asyncio; await asyncio.Event().wait()")))
    service = host.app_store.get(WorkflowService)
    assert service is not None
    session = host.session()
    script = "return await agent({stepId: 'a', agentRef: 'lead_agent', task: 7});"
    asked = LaunchRequest(script=script, args={}, name="n", request_id="r", options=options(ENTRY))
    run_id = host.submit(service.launch(asked, session)).result(60).run_id
    until(lambda: named(lab, host) != [])
    assert named(lab, host) == [
        ("warning", "on_system_model_call has not returned for 0.5 s and has no budget")
    ]
    host.submit(service.cancel(run_id, session)).result(60)
    until(lambda: host.submit(service.inspect(run_id, session)).result(60).state is RunState.CANCELLED)
    assert heard(lab, "last")[-1] == ("stop", "lead", "aborted")


def test_an_observer_of_compactions_that_hangs_holds_up_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "SLOW_SECONDS", 0.5)
    host = opened(lab, bad(hook("on_context_compacted", "import asyncio; await asyncio.Event().wait()")))
    view = run(host)
    assert view.state is RunState.COMPLETED
    until(lambda: named(lab, host) != [])
    assert named(lab, host)[0][1].startswith("on_context_compacted has not returned for 0.5 s")
    host.close()


@pytest.mark.parametrize("name", [*PLAIN, "on_system_model_call"])
def test_one_that_blocks_the_loop_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(notifications, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(assembly, "BLOCKING_SECONDS", 0.5)
    after = "return []" if name == "contribute_middlewares" else "pass"
    host = opened(lab, bad(hook(name, f"import time; time.sleep(0.7); {after}")))
    check_neighbours(lab, host, run(host))
    assert any(f"{name} blocked" in message for _, message in named(lab, host))


def test_one_that_registers_late(lab: Lab) -> None:
    late = "self.registry.task_lifecycle(self)"
    body = bad(hook("on_task_start", late)).replace(
        "good = Bad()", "good = Bad()\n    good.registry = registry"
    )
    host = opened(lab, body)
    check_neighbours(lab, host, run(host))
    found = named(lab, host)
    assert found and all("registers after its install function has ended" in message for _, message in found)
    assert len(host.snapshot.lifecycle) == 3


@pytest.mark.parametrize(
    ("marker", "words"),
    [("'0.3.0'", "0.3.0"), ("'99'", "99"), ("3", "type int"), ("'0.2.9 '", "0.2.9")],
)
def test_one_that_lies_about_its_version(lab: Lab, marker: str, words: str) -> None:
    from extension_api.version import MARKER_ATTRIBUTE

    host = opened(lab, GOOD + f"\nsetattr(install, {MARKER_ATTRIBUTE!r}, {marker})\n")
    check_neighbours(lab, host, run(host))
    ((level, message),) = named(lab, host)
    assert level == "error" and words in message


MUTATING = """
def wreck(value):
    for name in list(vars(value)):
        object.__setattr__(value, name, "wrecked")

class Bad(Base):
    async def on_task_start(self, app_store, task_store, info):
        wreck(info)
    async def on_task_stop(self, app_store, task_store, info, outcome):
        wreck(info)
    async def on_system_model_call(self, app_store, task_store, kind, request, result):
        result.response["t"].append("wrecked")
        wreck(request)
        wreck(result)
    async def on_context_compacted(self, app_store, task_store, event):
        wreck(event)
    def on_agent_assembled(self, app_store, descriptor):
        wreck(descriptor)
    def contribute_middlewares(self, app_store, ctx):
        wreck(ctx)
        return []
"""


def test_one_that_changes_what_it_is_given_changes_its_own_copy(lab: Lab) -> None:
    host = opened(lab, BAD.replace("BODY", MUTATING))
    check_neighbours(lab, host, run(host))
    assert named(lab, host) == []


RECURSIVE = """
class Deep:
    def release_policy_parameters(self):
        deep = {}
        inner = deep
        for _ in range(100_000):
            inner["d"] = inner = {}
        return deep

class Loop:
    def release_policy_parameters(self):
        loop = {}
        loop["loop"] = loop
        return loop

class Forever:
    @property
    def __wrapped__(self):
        return Forever()

class Exits:
    @property
    def __wrapped__(self):
        raise SystemExit(3)
    def release_policy_parameters(self):
        raise SystemExit(3)

class Bad(Base):
    def contribute_middlewares(self, app_store, ctx):
        return [MiddlewarePlacement(each(), Placement.STANDARD) for each in (Deep, Loop, Forever, Exits)]
"""


def test_one_whose_descriptor_has_no_end(lab: Lab) -> None:
    host = opened(lab, BAD.replace("BODY", RECURSIVE))
    check_neighbours(lab, host, run(host))
    assert ("first", "assembled", "lead_agent", 6) in lab.log
    assert named(lab, host) == []


def test_an_endless_list_of_middleware_is_cut_off(lab: Lab) -> None:
    endless = "import itertools; return (MiddlewarePlacement(Plain(), Placement.STANDARD) for _ in itertools.count())"
    host = opened(lab, bad(hook("contribute_middlewares", endless)))
    check_neighbours(lab, host, run(host))
    assert ("first", "assembled", "lead_agent", 102) in lab.log


def test_an_action_that_ends_the_program_ends_only_the_call(lab: Lab) -> None:
    body = GOOD.replace(
        "def install",
        "async def leave(payload, context):\n    raise SystemExit(3)\n\ndef install",
    ) + (
        "    registry.plugin(PluginContribution('test.bad', 'Bad', enabled=True,"
        " backend=(BackendAction('which', leave),)))\n"
    )
    host = opened(lab, body)
    with pytest.raises(WorkflowError, match="failed with SystemExit"):
        lab.call("bad")
    check_neighbours(lab, host, run(host))
    assert named(lab, host) == [("error", "action which raised SystemExit: 3")]
