"""The fingerprint, release policies, provenance, and canonical JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extension_api import (
    PROVENANCE_KEYS,
    AgentAssemblyDescriptor,
    ContentKind,
    MessageProvenance,
    MiddlewareDescriptor,
    ToolDescriptor,
    canonical_hash,
    canonical_json,
    collect_release_policies,
    provenance_kwargs,
    read_provenance,
)
from extension_api.testing import fake_descriptor

SEARCH = ToolDescriptor("search", "d1", "s1", "builtin")
READ = ToolDescriptor("read", "d2", "s2", "mcp", "files", "stdio")
OUTER = MiddlewareDescriptor("Outer", "m", {"limit": 1}, "ext:install")
INNER = MiddlewareDescriptor("Inner", "m")

BASE = fake_descriptor(
    requested_model="small",
    model_parameters={"temperature": 0.5, "nested": {"b": 1, "a": 2}},
    reasoning_effort="low",
    tools=(SEARCH, READ),
    middlewares=(OUTER, INNER),
    deferred_tool_names=("x", "y"),
    enabled_skills=("s", "t"),
    effective_policies={"loop": {"max": 3}},
    build={"git_commit": "abc"},
)


class TestFingerprint:
    def test_it_is_a_hash_and_computed_once(self) -> None:
        descriptor = dataclasses.replace(BASE)
        assert len(descriptor.fingerprint) == 64
        assert descriptor.fingerprint is descriptor.fingerprint
        assert descriptor.fingerprint == BASE.fingerprint

    @pytest.mark.parametrize(
        "change",
        [
            {"build": {"git_commit": "def"}},
            {"requested_model": "large"},
            {"requested_model": None},
            {"tools": (READ, SEARCH)},
            {"deferred_tool_names": ("y", "x")},
            {"enabled_skills": ("t", "s")},
            {"model_parameters": {"nested": {"a": 2, "b": 1}, "temperature": 0.5}},
        ],
    )
    def test_what_does_not_change_behaviour_is_excluded(self, change: dict[str, Any]) -> None:
        assert dataclasses.replace(BASE, **change).fingerprint == BASE.fingerprint

    @pytest.mark.parametrize(
        "change",
        [
            {"namespace": "other"},
            {"agent_name": "other"},
            {"effective_model": "other"},
            {"model_parameters": {"temperature": 0.6}},
            {"thinking_enabled": True},
            {"reasoning_effort": "high"},
            {"base_prompt_hash": "other"},
            {"tools": (SEARCH,)},
            {"tools": (SEARCH, SEARCH, READ)},
            *({"tools": (SEARCH, dataclasses.replace(READ, **{field.name: "changed"}))}
              for field in dataclasses.fields(ToolDescriptor)),
            {"middlewares": (INNER, OUTER)},
            {"middlewares": (OUTER, dataclasses.replace(INNER, name="changed"))},
            {"middlewares": (OUTER, dataclasses.replace(INNER, module="changed"))},
            {"middlewares": (OUTER, dataclasses.replace(INNER, extension="changed"))},
            {"middlewares": (dataclasses.replace(OUTER, policy_parameters={"limit": 2}), INNER)},
            {"deferred_tool_names": ("x",)},
            {"enabled_skills": ("s", "u")},
            {"effective_policies": {}},
        ],
    )  # fmt: skip
    def test_whatever_changes_behaviour_changes_it(self, change: dict[str, Any]) -> None:
        assert dataclasses.replace(BASE, **change).fingerprint != BASE.fingerprint

    def test_every_field_is_either_covered_or_excluded(self) -> None:
        assert {field.name for field in dataclasses.fields(AgentAssemblyDescriptor)} == {
            "namespace", "agent_name", "effective_model", "model_parameters", "thinking_enabled",
            "reasoning_effort", "base_prompt_hash", "tools", "middlewares", "deferred_tool_names",
            "enabled_skills", "effective_policies", "build", "requested_model",
        }  # fmt: skip

    def test_the_fingerprint_is_stable_across_releases(self) -> None:
        # A changed value would report every agent as changed after an upgrade.
        assert fake_descriptor().fingerprint == (
            "d529ac1f802d28108bad88cae6f9f4c3d8fad5644621057fab5bdbace8268c7d"
        )

    def test_a_parameter_that_is_not_json_is_a_type_error(self) -> None:
        with pytest.raises(TypeError):
            dataclasses.replace(BASE, model_parameters={"stop": object()}).fingerprint  # noqa: B018


class Plain:
    pass


class Declares:
    def __init__(self, value: object) -> None:
        self.value = value

    def release_policy_parameters(self) -> Any:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class Wrapper:
    def __init__(self, inner: object) -> None:
        self.__wrapped__ = inner


class TestReleasePolicies:
    def test_declarations_by_class_name_with_numbered_repeats(self) -> None:
        stack = [Declares({"a": 1}), Plain(), Declares({"a": 2}), Declares({})]
        assert collect_release_policies(stack) == {
            "Declares": {"a": 1},
            "Declares#2": {"a": 2},
            "Declares#3": {},
        }

    def test_wrappers_are_unwrapped_to_any_depth(self) -> None:
        assert collect_release_policies([Wrapper(Wrapper(Declares({"a": 1})))]) == {"Declares": {"a": 1}}

    def test_a_wrapper_around_itself_ends(self) -> None:
        wrapper = Wrapper(None)
        wrapper.__wrapped__ = wrapper
        other = Wrapper(wrapper)
        assert collect_release_policies([wrapper, other]) == {}

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (ValueError("secret"), {"error": "ValueError"}),
            (RecursionError(), {"error": "RecursionError"}),
            (None, {"error": "NonMappingDeclaration"}),
            ([("a", 1)], {"error": "NonMappingDeclaration"}),
            ("text", {"error": "NonMappingDeclaration"}),
        ],
    )
    def test_a_bad_declaration_is_recorded(self, value: object, expected: dict[str, object]) -> None:
        assert collect_release_policies([Declares(value)]) == {"Declares": expected}

    def test_a_declaration_that_is_no_method_is_recorded(self) -> None:
        class Attribute:
            release_policy_parameters = {"a": 1}

        assert collect_release_policies([Attribute()]) == {"Attribute": {"error": "TypeError"}}

    def test_the_result_is_detached_from_the_declared_mapping(self) -> None:
        declared = {"a": 1}
        collected = collect_release_policies([Declares(declared)])
        declared["a"] = 2
        assert collected == {"Declares": {"a": 1}}

    def test_leaving_the_program_is_not_contained(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            collect_release_policies([Declares(KeyboardInterrupt())])


class TestProvenance:
    def test_a_stamp_is_plain_strings_under_the_documented_keys(self) -> None:
        stamp = provenance_kwargs(ContentKind.MEMORY, "middleware", producer_entity_id="m-1")
        assert stamp == {
            "deerflow_content_kind": "memory",
            "deerflow_producer_kind": "middleware",
            "deerflow_producer_entity_id": "m-1",
        }
        assert all(type(value) is str for value in stamp.values())
        assert set(stamp) == PROVENANCE_KEYS

    def test_the_entity_is_left_out_when_there_is_none(self) -> None:
        assert set(provenance_kwargs("memory", "m")) == PROVENANCE_KEYS - {"deerflow_producer_entity_id"}

    @pytest.mark.parametrize("entity", [None, "e-1"])
    def test_what_is_stamped_is_read(self, entity: str | None) -> None:
        stamp = provenance_kwargs(ContentKind.SKILL_BODY, "skills", producer_entity_id=entity)
        message = SimpleNamespace(additional_kwargs={"other": 1, **stamp})
        assert read_provenance(message) == MessageProvenance("skill_body", "skills", entity)

    def test_a_kind_of_a_newer_host_is_a_string(self) -> None:
        message = SimpleNamespace(additional_kwargs=provenance_kwargs("hologram", "p"))
        read = read_provenance(message)
        assert read is not None
        assert read.content_kind == "hologram"

    @pytest.mark.parametrize(
        "kwargs",
        [
            None,
            [],
            {},
            {"deerflow_content_kind": "memory"},
            {"deerflow_producer_kind": "p"},
            {"deerflow_content_kind": 1, "deerflow_producer_kind": "p"},
            {"deerflow_content_kind": "memory", "deerflow_producer_kind": None},
        ],
    )
    def test_no_stamp(self, kwargs: object) -> None:
        assert read_provenance(SimpleNamespace(additional_kwargs=kwargs)) is None
        assert read_provenance(object()) is None

    def test_an_entity_that_is_no_string_is_none(self) -> None:
        kwargs = {**provenance_kwargs("memory", "p"), "deerflow_producer_entity_id": 7}
        read = read_provenance(SimpleNamespace(additional_kwargs=kwargs))
        assert read == MessageProvenance("memory", "p", None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class TestCanonicalJson:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ({"b": 1, "a": [1, 2.5, None, True]}, '{"a":[1,2.5,null,true],"b":1}'),
            ({"ä": "日本"}, '{"ä":"日本"}'),
            (("a", ("b",)), '["a",["b"]]'),
            (1e-7, "1e-07"),
            (-0.0, "-0.0"),
            ("\u2028\x00", '"\u2028\\u0000"'),
        ],
    )
    def test_form(self, value: object, expected: str) -> None:
        assert canonical_json(value) == expected

    @pytest.mark.parametrize(
        "value", [object(), {1, 2}, b"x", math.nan, math.inf, -math.inf, {"a": [math.nan]}, {(1,): 2}, {"a": 1, 2: 3}]
    )  # fmt: skip
    def test_what_is_not_json_is_a_type_error(self, value: object) -> None:
        with pytest.raises(TypeError):
            canonical_json(value)
        with pytest.raises(TypeError):
            canonical_hash(value)

    def test_a_cycle_is_a_type_error(self) -> None:
        cycle: list[object] = []
        cycle.append(cycle)
        with pytest.raises(TypeError):
            canonical_json(cycle)

    def test_a_lone_surrogate_has_no_hash(self) -> None:
        with pytest.raises(TypeError):
            canonical_hash("\ud800")

    def test_the_hash_is_over_the_utf_8_bytes(self) -> None:
        assert canonical_hash({"ä": 1}) == hashlib.sha256('{"ä":1}'.encode()).hexdigest()

    @given(json_values)
    @settings(max_examples=100, deadline=None)
    def test_the_order_of_keys_does_not_matter(self, value: Any) -> None:
        def turned(node: Any) -> Any:
            if isinstance(node, dict):
                return {key: turned(node[key]) for key in reversed(list(node))}
            return [turned(item) for item in node] if isinstance(node, list) else node

        assert canonical_json(value) == canonical_json(turned(value))
        assert json.loads(canonical_json(value)) == value
