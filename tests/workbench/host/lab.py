"""A workspace whose extensions are rewritten while its host runs."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.host.host import LocalHost
from workbench.host.reloading import ReloadResult
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.engine.service import WorkflowService
from workflows_core.model import RunState

from .kit import options, request

_NUMBERS = itertools.count()

WORKFLOWS = "{name: workflows, use: 'workflows_core.extension:install', config: {enabled: true}}"

#: ``log`` outlives every reload: it is in a module of its own.
EXTENSION = """
from deerflow_extension_api import *
from LOG import log

class Tally:
    version = "VERSION"
    count = 0

class Hooks:
    async def on_task_start(self, app_store, task_store, info):
        app_store.get_or_init(Tally, Tally).count += 1
        log.append(f"NAME VERSION task {info.agent_name}")
    async def on_task_stop(self, app_store, task_store, info, outcome):
        pass

class Service:
    async def start(self, deps):
        log.append("NAME VERSION start")
        if "start" in CONFIG:
            raise ValueError("no start")
        deps.app_store.get_or_init(Tally, Tally)
    async def stop(self):
        log.append("NAME VERSION stop")

async def which(payload, context):
    return "VERSION"

CONFIG = {}

def install(registry, config):
    CONFIG.update(config)
    registry.task_lifecycle(Hooks())
    registry.service(Service())
    registry.plugin(PluginContribution("test.NAME", "Name", enabled=True,
        backend=(BackendAction("which", which),)))
"""


class Lab:
    """A workspace whose extensions are rewritten while its host runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.number = next(_NUMBERS)
        self.host: LocalHost | None = None
        self.names: list[str] = [self.name("log")]
        (root / f"{self.name('log')}.py").write_text("import threading\nlog = []\ngate = threading.Event()\n")

    def name(self, short: str) -> str:
        return f"reloaded_{short}_{self.number}"

    def use(self, short: str) -> str:
        return f"{self.name(short)}:install"

    def write(self, short: str, version: str, body: str = EXTENSION) -> None:
        text = body.replace("LOG", self.name("log")).replace("NAME", short).replace("VERSION", version)
        (self.root / f"{self.name(short)}.py").write_text(text)

    def configure(self, *shorts: str, engine: bool = False, extra: str = "", **configs: str) -> None:
        records = [WORKFLOWS] if engine else []
        for short in shorts:
            config = configs.get(short, "{}")
            records.append(f"{{name: {short}, use: '{self.use(short)}', config: {config}}}")
        if extra:
            records.append(extra)
        (self.root / "workbench.yaml").write_text(f"plugins: [{', '.join(records)}]\n")

    def open(self) -> LocalHost:
        self.host = LocalHost.open(Workspace.find(explicit=self.root))
        return self.host

    def reload(self, use: str | None = None) -> ReloadResult:
        assert self.host is not None
        return self.host.reload(use).result(30)

    @property
    def shared(self) -> Any:
        return sys.modules[self.name("log")]

    @property
    def log(self) -> list[Any]:
        found: list[Any] = self.shared.log
        return found

    def outcomes(self) -> list[tuple[str, str, str]]:
        assert self.host is not None
        return [(each.record.name, each.outcome, each.message) for each in self.host.loaded.records]

    def call(self, short: str) -> Any:
        assert self.host is not None
        return self.host.call_action(f"test.{short}", "which", {}, self.host.session()).result(10)

    def child(self, step: str = "a", run: str = "wr_x") -> None:
        assert self.host is not None
        host = self.host
        session = host.session()

        async def run_it() -> None:
            view = await session.admit(request(step, run=run))
            await session.observe(view.run_id)

        host.submit(run_it()).result(10)


@contextmanager
def open_lab(root: Path) -> Iterator[Lab]:
    """A lab; at its end the host is closed, and no thread and no module of it is left."""
    path = list(sys.path)
    made = Lab(root)
    yield made
    if made.name("log") in sys.modules:
        made.shared.gate.set()
    if made.host is not None:
        made.host.close()
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("workbench-")])
    sys.path[:] = path
    for name in list(sys.modules):
        if name.startswith("reloaded_") and name.rpartition("_")[2].partition(".")[0] == str(made.number):
            del sys.modules[name]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


SCRIPT = """
const task = {stepId: 'a', agentRef: 'lead_agent', task: 1};
await agent(task);
await pause({stepId: 'p'});
await agent({stepId: 'b', agentRef: 'lead_agent', task: 2});
return 'done';
"""


def launch(host: LocalHost, script: str, request_id: str) -> str:
    service = host.app_store.get(WorkflowService)
    assert service is not None
    asked = LaunchRequest(script=script, args={}, name="n", request_id=request_id, options=options())
    return host.submit(service.launch(asked, host.session())).result(10).run_id


def state_of(host: LocalHost, run_id: str) -> RunState:
    service = host.app_store.get(WorkflowService)
    assert service is not None
    return host.submit(service.inspect(run_id, host.session())).result(10).state
