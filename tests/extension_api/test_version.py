"""The version marker and the rules by which a host accepts it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extension_api import API_VERSION, ExtensionRegistry, extension
from extension_api.version import (
    IncompatibleExtension,
    check_api_marker,
    compatible_range,
    parse_version,
)


def install_for(marker: object) -> Any:
    def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
        pass

    install.__deerflow_api__ = marker  # type: ignore[attr-defined]
    return install


@pytest.mark.parametrize("marker", ["0.2", "0.2.0", "0.2.4", "0.2.9", "0.2.9.0", "0.2.0.1"])
def test_a_0_2_9_host_accepts(marker: str) -> None:
    assert check_api_marker(install_for(marker), "0.2.9") == marker


@pytest.mark.parametrize("marker", ["0.1.2", "0.2.10", "0.2.9.1", "0.3.0", "1.0", "0", "1", "2.9", "00.3"])
def test_a_0_2_9_host_refuses_and_names_both_versions_and_the_range(marker: str) -> None:
    with pytest.raises(IncompatibleExtension) as refused:
        check_api_marker(install_for(marker), "0.2.9")
    message = str(refused.value)
    assert f"contract {marker} " in message
    assert "0.2.9" in message
    assert "deerflow-extension-api>=0.2,<0.3" in message
    assert (refused.value.declared, refused.value.host) == (marker, "0.2.9")


@pytest.mark.parametrize(
    "marker",
    ["x", "", ".", "0.2.", ".0.2", "0..2", "v0.2", "0.2.4\n", " 0.2", "0.2-1", "0.2.4rc1", "٠.٢", "0,2", "-0.2",
     "1" * 20, "0." * 9 + "1", None, 0.2, 2, True, b"0.2", ("0", "2"), object()],
)  # fmt: skip
def test_what_is_not_a_dotted_number_is_refused(marker: object) -> None:
    with pytest.raises(IncompatibleExtension, match="not a dotted numeric version") as refused:
        check_api_marker(install_for(marker))
    assert API_VERSION in str(refused.value)
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("host", "accepted", "refused"),
    [
        ("0.2.4", ["0.2.0", "0.2.4"], ["0.2.5", "0.1.9", "0.3.0"]),
        ("1.4.2", ["1.0", "1", "1.4.2", "1.3.9"], ["1.4.3", "1.5", "2.0", "0.2.0"]),
        ("2.0", ["2", "2.0.0"], ["2.0.1", "1.9"]),
    ],
)
def test_rules_before_and_from_1_0(host: str, accepted: list[str], refused: list[str]) -> None:
    for marker in accepted:
        assert check_api_marker(install_for(marker), host) == marker
    for marker in refused:
        with pytest.raises(IncompatibleExtension):
            check_api_marker(install_for(marker), host)


def test_without_a_marker_nothing_is_checked() -> None:
    assert check_api_marker(lambda registry, config: None) is None
    assert check_api_marker(object()) is None


def test_a_marker_that_raises_is_refused_and_names_the_exception() -> None:
    class Sly:
        @property
        def __deerflow_api__(self) -> str:
            raise ZeroDivisionError("secret")

        def __call__(self, *_: object) -> None:
            pass

    with pytest.raises(IncompatibleExtension, match="ZeroDivisionError") as refused:
        check_api_marker(Sly())
    assert "secret" not in str(refused.value)


def test_a_marker_may_be_a_string_enum_and_is_returned_as_a_plain_string() -> None:
    class Api(StrEnum):
        V = "0.2.4"

    assert type(check_api_marker(install_for(Api.V))) is str


def test_a_host_with_a_broken_version_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="dotted numeric"):
        check_api_marker(install_for("0.2"), "nightly")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.2.9", "deerflow-extension-api>=0.2,<0.3"),
        ("0.10", "deerflow-extension-api>=0.10,<0.11"),
        ("1.2.3", "deerflow-extension-api>=1,<2"),
    ],
)
def test_the_range_for_pip(host: str, expected: str) -> None:
    assert compatible_range(host) == expected


@given(st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_parsing_accepts_exactly_dotted_ascii_numbers(text: str) -> None:
    expected = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}", text) is not None
    assert (parse_version(text) is not None) == expected


class TestExtensionDecorator:
    def test_it_stamps_and_returns_the_same_function(self) -> None:
        def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            pass

        marked = extension(api="0.2.0", name="hello")(install)
        assert marked is install
        assert (marked.__deerflow_api__, marked.__deerflow_name__) == ("0.2.0", "hello")  # type: ignore[attr-defined]

    def test_the_name_is_optional(self) -> None:
        @extension(api="0.2.4")
        def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
            pass

        assert install.__deerflow_name__ is None  # type: ignore[attr-defined]
        assert check_api_marker(install) == "0.2.4"

    def test_the_api_must_be_named(self) -> None:
        with pytest.raises(TypeError):
            extension("0.2.0")  # type: ignore[call-arg]
