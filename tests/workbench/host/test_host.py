"""The host as a whole: a thread, a loop, extensions from a file, and a stand-in for the engine."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extension_api.agent_runs import AgentRunRefused, AgentRunStatus
from workbench.host.accounts import Cost
from workbench.host.host import LocalHost
from workbench.host.store import HostStore
from workbench.workspace import Workspace
from workflows_core.engine.service import WorkflowService
from workflows_core.errors import ConfigurationError, NotPermitted, StoreFailed, StoreInUse

from .kit import options, request

_NUMBERS = itertools.count()

ENGINE = """
from deerflow_extension_api import *

log = []

class Engine:
    def __init__(self, config):
        self.config = config
    async def start(self, deps):
        log.append("start")
        self.deps = deps
        deps.app_store.set(self)
        if "start" in self.config:
            raise SystemExit("start")
    async def stop(self):
        log.append("stop")
        self.handle = None
        if "stop" in self.config:
            raise SystemExit("stop")

class Hooks:
    async def on_task_start(self, app_store, task_store, info):
        log.append(f"task_start resumed={info.resumed}")
    async def on_task_stop(self, app_store, task_store, info, outcome):
        log.append(f"task_stop {outcome.value}")

async def who(payload, context):
    return [context.principal.user_id, context.agent_runs.session.mode]

@extension(api="0.2.9", name="engine")
def install(registry, config):
    registry.service(Engine(dict(config)))
    if config.get("hooks"):
        registry.task_lifecycle(Hooks())
    registry.plugin(PluginContribution("test.engine", "Engine", enabled=True,
        backend=(BackendAction("who", who),),
        tools=(ModelTool("ask", "Ask", {"type": "object"}, who),)))
"""


class Hosts:
    """Opens hosts over one workspace and closes them at the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.module = f"ext_under_test_host_{next(_NUMBERS)}"
        (root / f"{self.module}.py").write_text(ENGINE)
        self._opened: list[LocalHost] = []

    def configure(self, config: str = "{}", extra: str = "", required: bool = True) -> None:
        (self.root / "workbench.yaml").write_text(
            f"plugins: [{{name: engine, use: '{self.module}:install', required: {str(required).lower()},"
            f" config: {config}}}]\n{extra}"
        )

    def open(self) -> LocalHost:
        host = LocalHost.open(Workspace.find(explicit=self.root))
        self._opened.append(host)
        return host

    def engine(self, host: LocalHost) -> Any:
        return host.app_store.get(sys.modules[self.module].Engine)

    @property
    def log(self) -> list[str]:
        found: list[str] = sys.modules[self.module].log
        return found

    def close(self) -> None:
        for host in self._opened:
            host.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    path = list(sys.path)
    made = Hosts(tmp_path)
    yield made
    made.close()
    sys.path[:] = path
    sys.modules.pop(made.module, None)
    assert not [t for t in threading.enumerate() if t.name.startswith("workbench-")]


def test_without_a_configuration_the_engine_runs(tmp_path: Path) -> None:
    host = LocalHost.open(Workspace.find(explicit=tmp_path))
    try:
        assert isinstance(host.app_store.get(WorkflowService), WorkflowService)
        assert [entry.outcome for entry in host.loaded.records] == ["loaded"]
        names = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / ".workbench").iterdir()}
        assert {"host.sqlite", "secret"} <= set(names)
        assert set(names.values()) == {0o600}
        assert (tmp_path / ".workbench").stat().st_mode & 0o777 == 0o700
    finally:
        host.close()
        host.close()
    assert not host._thread.is_alive()


def test_a_second_host_names_the_owner_and_leaves_it_alone(tmp_path: Path) -> None:
    workspace = Workspace.find(explicit=tmp_path)
    host = LocalHost.open(workspace)
    try:
        view = host.submit(host.session().admit(request(launch=options({"hang": True})))).result()
        with pytest.raises(StoreInUse) as caught:
            LocalHost.open(Workspace.find(explicit=tmp_path))
        assert caught.value.pid == os.getpid()
        found = host.submit(host.session().find("wr_1/a/1")).result()
        assert found is not None and (found.run_id, found.status) == (view.run_id, AgentRunStatus.RUNNING)
    finally:
        host.close()


def test_the_service_gets_what_the_host_offers(hosts: Hosts) -> None:
    hosts.configure()
    host = hosts.open()
    deps = hosts.engine(host).deps
    assert deps.app_store is host.app_store
    assert deps.policy is host.policy and deps.policy.max_subagents_per_run == 16
    assert deps.workspace_root == str(hosts.root)
    assert deps.execution_leases is None

    async def evidence() -> Any:
        view = await host.session().admit(request())
        return view, await deps.run_evidence_reader.list_changed_runs(cursor=None, limit=5)

    view, page = host.submit(evidence()).result()
    assert [item.run_id for item in page.items] == [view.run_id]


def test_children_of_a_closed_host_are_observed_by_the_next_one(hosts: Hosts, tmp_path: Path) -> None:
    hosts.configure("{hooks: true}")
    launch = options({"reply": {"a": 1}, "after": 600})
    host = hosts.open()
    view = host.submit(host.session().admit(request(launch=launch))).result()
    host.close()  # a durable child is not waited for
    log = list(hosts.log)
    hosts.log.clear()
    store = HostStore.open(host.workspace.host_store_path)
    store.write("UPDATE child_runs SET due = due - 600000000")  # ten minutes pass
    store.close()
    host = hosts.open()
    observed = host.submit(host.session().observe(view.run_id)).result(20)
    assert (observed.status, observed.output) == (AgentRunStatus.SUCCESS, {"a": 1})
    host.close()
    assert log in (["start", "task_start resumed=False", "stop"], ["start", "stop"])
    assert hosts.log == ["start", "task_start resumed=True", "task_stop completed", "stop"]


def test_a_required_service_that_fails_closes_everything(hosts: Hosts) -> None:
    hosts.configure("{start: fail}")
    with pytest.raises(ConfigurationError, match="its service start raised SystemExit: start"):
        hosts.open()
    assert hosts.log == ["start", "stop"]


def test_a_service_that_would_end_the_program_keeps_the_host_closed(hosts: Hosts) -> None:
    hosts.configure("{start: fail}", required=False)
    with pytest.raises(
        ConfigurationError, match="would end the program: its service start raised SystemExit"
    ):
        hosts.open()
    assert hosts.log == ["start", "stop"]


def test_a_service_that_would_end_the_program_when_it_stops_leaves_the_host_closed_in_order(
    hosts: Hosts, caplog: pytest.LogCaptureFixture
) -> None:
    hosts.configure("{stop: fail}", required=False)
    host = hosts.open()
    handle = host.session()
    host.close()
    assert hosts.log == ["start", "stop"]
    assert "the host ended with SystemExit" in caplog.text
    with pytest.raises(AgentRunRefused):
        handle.authorize("lead_agent")
    hosts.configure()
    hosts.open()


def test_a_wrong_configuration_opens_nothing(hosts: Hosts) -> None:
    (hosts.root / "workbench.yaml").write_text("plugin: []\n")
    with pytest.raises(ConfigurationError, match="plugin is not a key of the configuration"):
        hosts.open()
    assert not (hosts.root / ".workbench").exists()


def test_a_secret_that_others_can_read_closes_everything(hosts: Hosts) -> None:
    hosts.configure()
    hosts.open().close()
    (hosts.root / ".workbench" / "secret").chmod(0o644)
    with pytest.raises(StoreFailed, match="chmod 600"):
        hosts.open()


def test_handles_end_with_the_host(hosts: Hosts) -> None:
    hosts.configure()
    host = hosts.open()
    handle = host.session()
    assert [session for _, session in host.sessions()] == [handle.session]
    handle.authorize("lead_agent")
    with pytest.raises(AgentRunRefused) as caught:
        handle.authorize("nobody")
    assert caught.value.code == "unknown_agent"
    host.close()
    with pytest.raises(AgentRunRefused) as caught:
        handle.authorize("lead_agent")
    assert caught.value.code == "revoked"
    with pytest.raises(StoreFailed, match="is closing"):
        host.submit(handle.find("x"))


def test_a_revoked_session_is_refused_everywhere(hosts: Hosts) -> None:
    hosts.configure()
    host = hosts.open()
    handle = host.session()
    assert host.revoke(handle.session.session_id) == 1
    operations = (
        lambda: host.submit(handle.admit(request())).result(),
        lambda: host.submit(handle.find("k")).result(),
        lambda: host.submit(handle.observe("r")).result(),
        lambda: host.submit(handle.interrupt("r")).result(),
        lambda: host.submit(handle.read_file("r", "p", max_bytes=1)).result(),
        lambda: host.submit(handle.delete_runs("wr_1")).result(),
        lambda: handle.check_options(options()),
        lambda: handle.configuration_revision(options()),
        lambda: handle.configuration_components(options()),
    )
    for operation in operations:
        with pytest.raises(AgentRunRefused) as caught:
            operation()
        assert caught.value.code == "revoked"


def test_the_terminal_session_belongs_to_the_owner_of_the_workspace(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.configure()
    host = hosts.open()
    handle = host.session(interactive=False)
    assert (handle.principal.user_id, handle.principal.is_admin) == (f"os:{os.getuid()}", True)
    assert (handle.session.mode, handle.session.interactive) == ("terminal", False)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(NotPermitted, match="does not own this workspace"):
        host.session()


def test_a_session_of_another_process_is_taken_from_its_record(hosts: Hosts) -> None:
    hosts.configure()
    host = hosts.open()
    row = {"uid": os.getuid(), "pid": 5, "description": "terminal, uid 1, pts/9", "interactive": True}
    make = hosts.engine(host).deps.agent_runs_for

    async def ask() -> Any:
        return make(row)

    handle = host.submit(ask()).result()
    assert handle.principal == host.session().principal
    assert (handle.session.description, handle.session.interactive) == ("terminal, uid 1, pts/9", True)
    with pytest.raises(AgentRunRefused):
        make(row | {"uid": os.getuid() + 1})


def test_without_authentication_everybody_is_local(hosts: Hosts) -> None:
    hosts.configure(extra="auth: {mode: disabled}\n")
    host = hosts.open()
    handle = host.session(interactive=True)
    assert (handle.principal.user_id, handle.session.mode, handle.session.interactive) == (
        "local",
        "disabled",
        False,
    )
    assert host.submit(handle.admit(request())).result().status is AgentRunStatus.SUCCESS
    assert host.session_for({}).principal == handle.principal


def test_accounts_are_needed_where_the_configuration_asks_for_them(hosts: Hosts) -> None:
    hosts.configure(extra="auth: {mode: password}\n")
    host = hosts.open()
    host.accounts._cost = Cost(n=16, r=1)
    with pytest.raises(NotPermitted, match="workbench login"):
        host.session()
    host._call(host.accounts.create, "ada", "correct horse")
    found = host._call(host.accounts.log_in, "ada", "correct horse", "pts/3")
    handle = host.session(token=found.token)
    assert (handle.principal.user_id, handle.session.mode) == ("ada", "password")
    assert handle.session.interactive is False  # the tests have no terminal on both sides
    row = {"uid": os.getuid(), "pid": 5, "description": "x", "interactive": False}
    with pytest.raises(AgentRunRefused):
        host._call(host.session_for, row)
    other = host._call(host.session_for, row | {"session_id": handle.session.session_id})
    assert other.principal == handle.principal
    host._call(host.accounts.disable, "ada")
    with pytest.raises(AgentRunRefused, match="log in again"):
        host.submit(handle.admit(request())).result()


def test_actions_and_tools_are_called_with_the_session(hosts: Hosts) -> None:
    hosts.configure()
    host = hosts.open()
    handle = host.session()
    expected = [f"os:{os.getuid()}", "terminal"]
    assert host.call_action("test.engine", "who", {}, handle).result() == expected
    assert [tool.name for tool in host.tools()] == ["test_engine__ask"]
    assert host.call_tool("test_engine__ask", {}, handle, "t").result() == expected


def test_calls_are_counted_in_the_file_of_the_environment(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hosts.root / "calls.jsonl"
    monkeypatch.setenv("WORKBENCH_STUB_CALLS", str(path))
    hosts.configure()
    for _ in range(2):
        host = hosts.open()
        for step in ("a", "b"):
            host.submit(host.session().admit(request(step))).result()
        host.close()
    assert len(path.read_text().splitlines()) == 2


def test_the_next_host_sweeps_what_ran_inside_the_last_one(hosts: Hosts) -> None:
    hosts.configure()
    host = hosts.open()
    view = host.submit(host.session().admit(request(launch=options({"hang": True})))).result()
    host._call(host.store.write, "UPDATE child_runs SET durable = 0 WHERE run_id = ?", view.run_id)
    host.close()
    host = hosts.open()
    row = host._call(host.store.child, view.run_id)
    assert row.status == "interrupted"


def test_a_host_that_nobody_waits_for_any_more_ends(hosts: Hosts) -> None:
    hosts.configure()
    host = LocalHost(Workspace.find(explicit=hosts.root))
    host.workspace.make_state_dir()
    host._thread.start()
    host.close()
    assert not host._thread.is_alive()
    assert hosts.log == ["start", "stop"]
