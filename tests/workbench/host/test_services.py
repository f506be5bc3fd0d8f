from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extension_api import ExtensionRuntimeDeps
from workbench.host.diagnostics import Diagnostics
from workbench.host.registry import Collector, RecordRegistry
from workbench.host.services import Services
from workflows_core.errors import ConfigurationError, StoreInUse


class Service:
    def __init__(self, name: str, log: list[str], start: Any = None, stop: Any = None) -> None:
        self.name, self.log, self._start, self._stop = name, log, start, stop

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        self.log.append(f"start {self.name}")
        if self._start is not None:
            await self._start()

    async def stop(self) -> None:
        self.log.append(f"stop {self.name}")
        if self._stop is not None:
            await self._stop()


def services(*made: Any, fatal: tuple[int, ...] = (), seconds: float = 30) -> tuple[Services, Diagnostics]:
    collector = Collector()
    for index, service in enumerate(made):
        registry = RecordRegistry(collector, f"ext{index}:install", index)
        registry.service(service)
        registry.seal()
    diagnostics = Diagnostics()
    return Services(collector.snapshot().services, diagnostics, fatal, seconds), diagnostics


def problems(diagnostics: Diagnostics) -> list[tuple[str, str]]:
    return [(entry.source, entry.message) for entry in diagnostics.all()]


def raising(error: BaseException) -> Any:
    async def act() -> None:
        raise error

    return act


async def hang() -> None:
    await asyncio.sleep(60)


async def test_started_in_order_and_stopped_in_reverse() -> None:
    log: list[str] = []
    made, diagnostics = services(*(Service(name, log) for name in "abc"))
    await made.start(ExtensionRuntimeDeps())
    await made.stop()
    await made.stop()
    assert log == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert problems(diagnostics) == []


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError()])
async def test_a_service_that_fails_is_named_stopped_and_the_others_go_on(error: BaseException) -> None:
    log: list[str] = []
    made, diagnostics = services(
        Service("a", log, start=raising(error)), Service("b", log, stop=raising(error))
    )
    await made.start(ExtensionRuntimeDeps())
    await made.stop()
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert [source for source, _ in problems(diagnostics)] == ["ext0:install", "ext1:install"]
    assert f"start raised {type(error).__name__}" in problems(diagnostics)[0][1]


async def test_a_service_that_would_end_the_program_is_not_contained() -> None:
    log: list[str] = []
    made, diagnostics = services(
        Service("a", log), Service("b", log, start=raising(SystemExit(3))), Service("c", log)
    )
    with pytest.raises(
        ConfigurationError, match="ext1:install would end the program: its service start raised SystemExit: 3"
    ):
        await made.start(ExtensionRuntimeDeps())
    await made.stop()
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert problems(diagnostics) == [("ext1:install", "start raised SystemExit: 3")]


@pytest.mark.parametrize("fatal", [(), (0,)])
async def test_an_interruption_passes_as_it_is(fatal: tuple[int, ...]) -> None:
    made, _ = services(Service("a", [], start=raising(KeyboardInterrupt())), fatal=fatal)
    with pytest.raises(KeyboardInterrupt):
        await made.start(ExtensionRuntimeDeps())
    await made.stop()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_what_is_not_contained_passes_once_every_service_is_stopped(error: BaseException) -> None:
    log: list[str] = []
    made, diagnostics = services(
        Service("a", log),
        Service("b", log, stop=raising(error)),
        Service("c", log, stop=raising(ValueError())),
    )
    await made.start(ExtensionRuntimeDeps())
    with pytest.raises(type(error)) as passed:
        await made.stop()
    assert passed.value is error
    assert log[3:] == ["stop c", "stop b", "stop a"]
    assert [source for source, _ in problems(diagnostics)] == ["ext2:install", "ext1:install"]


async def test_services_of_a_reload_end_no_live_run_whatever_they_raise() -> None:
    made, _ = services()
    fresh, _ = services(Service("new", [], start=raising(SystemExit(3)), stop=raising(SystemExit(4))))
    assert await made.start_more(fresh._services, ExtensionRuntimeDeps(), 5) == [
        "its service start raised SystemExit: 3"
    ]
    await made.stop_these(fresh._services)


async def test_a_service_that_hangs_is_left_behind_after_its_time() -> None:
    log: list[str] = []
    made, diagnostics = services(
        Service("a", log), Service("b", log, start=hang, stop=hang), Service("c", log), seconds=0.05
    )
    await made.start(ExtensionRuntimeDeps())
    await made.stop()
    assert log == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert problems(diagnostics) == [
        ("ext1:install", "did not start in time"),
        ("ext1:install", "did not stop in time"),
    ]


async def test_an_error_of_the_tree_from_a_required_service_passes_as_it_is() -> None:
    log: list[str] = []
    made, _ = services(
        Service("a", log),
        Service("b", log, start=raising(StoreInUse("taken", pid=7))),
        Service("c", log),
        fatal=(1,),
    )
    with pytest.raises(StoreInUse) as caught:
        await made.start(ExtensionRuntimeDeps())
    assert caught.value.pid == 7
    await made.stop()
    assert log == ["start a", "start b", "stop b", "stop a"]


async def test_any_other_failure_of_a_required_service_is_an_error_of_the_configuration() -> None:
    made, _ = services(Service("a", [], start=raising(ValueError("no"))), fatal=(0,))
    with pytest.raises(ConfigurationError, match=r"ext0:install is required, and its service start raised"):
        await made.start(ExtensionRuntimeDeps())
    await made.stop()


async def test_something_that_is_no_service_is_contained() -> None:
    made, diagnostics = services(object())
    await made.start(ExtensionRuntimeDeps())
    await made.stop()
    assert [message.partition(":")[0] for _, message in problems(diagnostics)] == [
        "start raised AttributeError",
        "stop raised AttributeError",
    ]
