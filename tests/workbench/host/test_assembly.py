from __future__ import annotations

from typing import Any

import pytest

from extension_api import (
    AgentAssemblyDescriptor,
    AgentBuildContext,
    AgentScope,
    ExtensionData,
    HostPolicySnapshot,
    MiddlewarePlacement,
    Placement,
)
from workbench.agents.base import AgentDescription
from workbench.host.assembly import Assembler
from workbench.host.diagnostics import Diagnostics
from workbench.host.ordering import contributed_middleware
from workbench.host.registry import ExtensionSnapshot

from .kit import InProcessBackend, snapshot_of

TOOLS: dict[str, Any] = {
    "search": ("Search the web", {"type": "object"}),
    "read": ("Read a file", {"type": "object"}),
}
BASE = AgentDescription(
    "model-1",
    requested_model="model",
    model_parameters={"temperature": 0.5, "top_p": 1, "stop": ["x"], "stream": True},
    prompt="You are careful.",
    tools=TOOLS,
    skills=("b", "a"),
    policies={"budget": 5},
)


class Watcher:
    def __init__(self) -> None:
        self.seen: list[AgentAssemblyDescriptor] = []

    def on_agent_assembled(self, app: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        self.seen.append(descriptor)


class Bad:
    def __init__(self, act: Any) -> None:
        self.act = act

    def on_agent_assembled(self, app: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        self.act(descriptor)


class Contributor:
    def __init__(self, result: Any) -> None:
        self.result = result

    def contribute_middlewares(self, app: ExtensionData, ctx: AgentBuildContext) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


class Timer:
    def __init__(self, parameters: Any) -> None:
        self.parameters = parameters

    def release_policy_parameters(self) -> Any:
        if isinstance(self.parameters, Exception):
            raise self.parameters
        return self.parameters


def assembler(snapshot: ExtensionSnapshot | None = None) -> tuple[Assembler, Diagnostics]:
    diagnostics = Diagnostics()
    made = Assembler(
        snapshot if snapshot is not None else ExtensionSnapshot(),
        ExtensionData("app"),
        diagnostics,
        HostPolicySnapshot(),
    )
    return made, diagnostics


def evidence(made: Assembler, description: AgentDescription, agent: str = "writer") -> dict[str, Any]:
    backend = InProcessBackend()
    backend.description = description
    return dict(made.assemble(agent, backend, {}, {"agents": "real"}).value)


def replaced(**changes: Any) -> AgentDescription:
    from dataclasses import replace

    return replace(BASE, **changes)


@pytest.mark.parametrize(
    ("changes", "component"),
    [
        ({"effective_model": "model-2"}, "model"),
        ({"thinking_enabled": True}, "model"),
        ({"prompt": "You are quick."}, "prompt"),
        ({"model_parameters": {**BASE.model_parameters, "temperature": 0.6}}, "parameter:temperature"),
        ({"tools": {**TOOLS, "read": ("Read any file", {"type": "object"})}}, "tool:read"),
        ({"tools": {**TOOLS, "read": ("Read a file", {"type": "object", "x": 1})}}, "tool:read"),
        ({"tools": {"search": TOOLS["search"]}}, "tool:read"),
        ({"skills": ("a",)}, "skills"),
        ({"policies": {"budget": 6}}, "policies"),
    ],
)
def test_a_change_shows_in_exactly_its_component(changes: dict[str, Any], component: str) -> None:
    made, _ = assembler()
    before, after = evidence(made, BASE), evidence(made, replaced(**changes))
    names = {*before["components"], *after["components"]}
    assert {n for n in names if before["components"].get(n) != after["components"].get(n)} == {component}
    assert before["fingerprint"] != after["fingerprint"]


def test_the_order_of_tools_and_skills_and_the_requested_model_mean_nothing() -> None:
    made, _ = assembler()
    other = replaced(tools=dict(reversed(TOOLS.items())), skills=("a", "b"), requested_model="other")
    assert evidence(made, other) == evidence(made, BASE)


def test_evidence_holds_safe_numbers_and_keyed_versions_only() -> None:
    made, _ = assembler()
    found = evidence(made, BASE)
    assert found["numbers"] == {"temperature": 0.5, "top_p": 1}
    assert "careful" not in str(found) and "model-1" not in str(found)
    assert evidence(assembler()[0], BASE)["components"] != found["components"]
    assert made.latest["writer"] == found


def test_a_descriptor_says_everything_and_each_observer_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEER_FLOW_GIT_COMMIT", "abc")
    monkeypatch.delenv("DEER_FLOW_IMAGE_DIGEST", raising=False)
    watcher = Watcher()

    def spoil(descriptor: AgentAssemblyDescriptor) -> None:
        descriptor.effective_policies.clear()
        descriptor.model_parameters["temperature"] = 99

    def install(registry: Any) -> None:
        registry.agent_assembly_observer(Bad(spoil))
        registry.agent_assembly_observer(watcher)

    made, _ = assembler(snapshot_of(install))
    first = evidence(made, BASE)
    descriptor = watcher.seen[0]
    assert (descriptor.namespace, descriptor.agent_name) == ("local", "writer")
    assert (descriptor.requested_model, descriptor.effective_model) == ("model", "model-1")
    assert descriptor.effective_policies == {"budget": 5}
    assert descriptor.model_parameters["temperature"] == 0.5
    assert descriptor.build == {"image_digest": "unknown", "git_commit": "abc"}
    assert [tool.name for tool in descriptor.tools] == ["search", "read"]
    assert evidence(made, BASE) == first
    assert watcher.seen[0].fingerprint == watcher.seen[1].fingerprint


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), RecursionError()])
def test_an_observer_that_raises_does_not_stop_the_agent(error: BaseException) -> None:
    def act(_: object) -> None:
        raise error

    watcher = Watcher()

    def install(registry: Any) -> None:
        registry.agent_assembly_observer(Bad(act))
        registry.agent_assembly_observer(watcher)

    made, diagnostics = assembler(snapshot_of(install))
    assert evidence(made, BASE)["fingerprint"]
    assert len(watcher.seen) == 1
    assert f"on_agent_assembled raised {type(error).__name__}" in diagnostics.all()[0].message


def _deep() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"a": value}
    return value


def _circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    ("parameters", "recorded"),
    [
        ({"slow_ms": 200}, {"slow_ms": 200}),
        (ValueError("x"), {"error": "ValueError"}),
        ([1], {"error": "NonMappingDeclaration"}),
        ({"a": object()}, {"error": "TypeError"}),
        (_circle(), {"error": "TypeError"}),
        (_deep(), {"error": "RecursionError"}),
    ],
)
def test_a_middleware_policy_is_recorded_or_what_is_wrong_with_it(parameters: Any, recorded: Any) -> None:
    watcher = Watcher()

    def install(registry: Any) -> None:
        registry.middlewares(Contributor([MiddlewarePlacement(Timer(parameters), Placement.STANDARD)]))
        registry.agent_assembly_observer(watcher)

    made, _ = assembler(snapshot_of(install, "mine:install"))
    evidence(made, BASE)
    middleware = watcher.seen[0].middlewares[0]
    assert (middleware.name, middleware.module, middleware.extension) == ("Timer", __name__, "mine:install")
    assert middleware.policy_parameters == recorded


def _place(name: str, **changes: Any) -> MiddlewarePlacement:
    fields: dict[str, Any] = {"middleware": name, "placement": Placement.STANDARD} | changes
    return MiddlewarePlacement(**fields)


def ordered(*results: Any, scope: AgentScope = AgentScope.LEAD) -> tuple[list[str], list[str]]:
    def install(registry: Any) -> None:
        for result in results:
            registry.middlewares(Contributor(result))

    diagnostics = Diagnostics()
    found = contributed_middleware(
        snapshot_of(install), ExtensionData("app"), AgentBuildContext(scope), diagnostics
    )
    return [entry.middleware for entry in found], [entry.message for entry in diagnostics.all()]


def test_middleware_is_sorted_by_order_then_registration() -> None:
    names, problems = ordered(
        [_place("b", order=5), _place("c", order=5)], [_place("d", order=5), _place("a", order=-1)]
    )
    assert (names, problems) == (["a", "b", "c", "d"], [])


def test_scopes_are_kept_apart() -> None:
    entries = [_place("l", scope=AgentScope.LEAD), _place("s", scope=AgentScope.SUBAGENT), _place("b")]
    assert ordered(entries)[0] == ["l", "b"]
    assert ordered(entries, scope=AgentScope.SUBAGENT)[0] == ["s", "b"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("text", "it is a str, not a MiddlewarePlacement"),
        (_place("x", placement="standard"), "its placement is a str"),
        (_place("x", scope=3), "its scope is not an AgentScope"),
        (_place("x", scope=AgentScope(0)), "its scope is not an AgentScope"),
        (_place("x", order=True), "its order is a bool"),
        (_place("x", order=1.5), "its order is a float"),
        (_place("x", middleware=None), "its middleware is not an object"),
        (_place("x", middleware=Timer), "its middleware is not an object"),
    ],
)
def test_an_invalid_entry_is_skipped_alone(entry: Any, words: str) -> None:
    names, problems = ordered([_place("a"), entry, _place("b")])
    assert names == ["a", "b"]
    assert len(problems) == 1 and words in problems[0] and "middleware 1 was skipped" in problems[0]


@pytest.mark.parametrize("result", [ValueError("x"), SystemExit(), None, 5])
def test_a_contributor_that_fails_contributes_nothing(result: Any) -> None:
    names, problems = ordered(result, [_place("a")])
    assert names == ["a"]
    assert "contribute_middlewares raised" in problems[0]
