"""Identity and plugin management: everything that cannot be determined is refused."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from extension_api import (
    EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY,
    EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY,
    EXTENSION_PRINCIPAL_RESOLVER_KEY,
    ExtensionPrincipal,
    arequire_plugin_management,
    require_admin,
    require_plugin_management,
    resolve_principal,
)

ADMIN = ExtensionPrincipal("ada", is_admin=True)
USER = ExtensionPrincipal("bob", roles=("reader",))


def request(**state: Any) -> Any:
    return SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(**state)))


def authenticated(principal: object = USER, **state: Any) -> Any:
    return request(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: lambda _: principal}, **state)


def failing(*_: object) -> Any:
    raise RuntimeError("the provider is down")


async def afailing(*_: object) -> Any:
    raise RuntimeError("the provider is down")


class Hostile:
    @property
    def app(self) -> Any:
        raise RuntimeError("no application")


async def a_principal(_: object) -> ExtensionPrincipal:
    return ADMIN


UNDETERMINED: dict[str, Any] = {
    "no application": object(),
    "no state": SimpleNamespace(app=object()),
    "no resolver": request(),
    "resolver is not callable": request(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: ADMIN}),
    "resolver raises": request(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: failing}),
    "resolver is a coroutine function": request(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: a_principal}),
    "anonymous": authenticated(None),
    "a dictionary": authenticated({"user_id": "ada", "is_admin": True}),
    "a look-alike": authenticated(SimpleNamespace(user_id="ada", is_admin=True)),
    "True": authenticated(True),
    "application raises": Hostile(),
    "no request": None,
}


@pytest.mark.parametrize("reason", UNDETERMINED)
class TestUndeterminedCaller:
    def test_is_nobody(self, reason: str) -> None:
        assert resolve_principal(UNDETERMINED[reason]) is None

    def test_is_no_administrator(self, reason: str) -> None:
        with pytest.raises(PermissionError, match=r"^this endpoint requires an administrator account$"):
            require_admin(UNDETERMINED[reason])

    async def test_manages_nothing(self, reason: str) -> None:
        with pytest.raises(PermissionError):
            require_plugin_management(UNDETERMINED[reason], "my.plugin")
        with pytest.raises(PermissionError):
            await arequire_plugin_management(UNDETERMINED[reason], "my.plugin")


def test_the_resolver_gets_the_request() -> None:
    seen: list[object] = []

    def resolver(given: object) -> ExtensionPrincipal:
        seen.append(given)
        return USER

    asked = request(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: resolver})
    assert resolve_principal(asked) is USER
    assert seen == [asked]


def test_an_administrator_passes_and_a_user_does_not() -> None:
    assert require_admin(authenticated(ADMIN)) is ADMIN
    with pytest.raises(PermissionError, match=r"^this endpoint requires an administrator account$"):
        require_admin(authenticated(USER))


def test_an_internal_caller_is_not_an_administrator() -> None:
    with pytest.raises(PermissionError):
        require_admin(authenticated(ExtensionPrincipal("svc", is_internal=True)))


@pytest.mark.parametrize("claim", [1, "yes", object()])
def test_only_true_makes_an_administrator(claim: Any) -> None:
    with pytest.raises(PermissionError):
        require_admin(authenticated(ExtensionPrincipal("eve", is_admin=claim)))


def test_the_system_exiting_passes_through_a_resolver() -> None:
    def leaving(_: object) -> Any:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        resolve_principal(request(**{EXTENSION_PRINCIPAL_RESOLVER_KEY: leaving}))


class TestPluginManagement:
    def both(self, answer: object) -> Any:
        async def later(*_: object) -> Any:
            return answer

        return authenticated(
            **{
                EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY: lambda *_: answer,
                EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY: later,
            }
        )

    async def test_a_yes_returns_the_caller(self) -> None:
        assert require_plugin_management(self.both(True), "my.plugin") is USER
        assert await arequire_plugin_management(self.both(True), "my.plugin", scope="write") is USER

    @pytest.mark.parametrize("answer", [False, None, 1, "allow", object(), [True]])
    async def test_everything_else_is_a_no(self, answer: object) -> None:
        with pytest.raises(PermissionError):
            require_plugin_management(self.both(answer), "my.plugin")
        with pytest.raises(PermissionError):
            await arequire_plugin_management(self.both(answer), "my.plugin")

    async def test_read_and_write_are_asked_separately(self) -> None:
        asked: list[tuple[object, ...]] = []

        def decide(*given: object) -> bool:
            asked.append(given)
            return given[2] == "read"

        async def adecide(*given: object) -> bool:
            return decide(*given)

        caller = authenticated(
            **{
                EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY: decide,
                EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY: adecide,
            }
        )
        assert require_plugin_management(caller, "a.b") is USER
        assert await arequire_plugin_management(caller, "a.b") is USER
        with pytest.raises(PermissionError, match="write"):
            require_plugin_management(caller, "a.b", scope="write")
        with pytest.raises(PermissionError, match="write"):
            await arequire_plugin_management(caller, "a.b", scope="write")
        assert asked == [
            (caller, "a.b", "read"),
            (caller, "a.b", "read"),
            (caller, "a.b", "write"),
            (caller, "a.b", "write"),
        ]

    async def test_a_missing_resolver_is_a_no(self) -> None:
        with pytest.raises(PermissionError):
            require_plugin_management(authenticated(ADMIN), "a")
        with pytest.raises(PermissionError):
            await arequire_plugin_management(authenticated(ADMIN), "a")

    async def test_a_failing_resolver_is_a_no_with_its_cause(self) -> None:
        caller = authenticated(
            **{
                EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY: failing,
                EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY: afailing,
            }
        )
        with pytest.raises(PermissionError) as refused:
            require_plugin_management(caller, "a")
        assert isinstance(refused.value.__cause__, RuntimeError)
        with pytest.raises(PermissionError) as refused:
            await arequire_plugin_management(caller, "a")
        assert isinstance(refused.value.__cause__, RuntimeError)
        assert "down" not in str(refused.value)

    def test_the_synchronous_form_never_takes_a_coroutine_for_a_yes(self) -> None:
        async def yes(*_: object) -> bool:
            return True

        with pytest.raises(PermissionError):
            require_plugin_management(authenticated(**{EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY: yes}), "a")

    async def test_the_asynchronous_form_never_falls_back(self) -> None:
        only_sync = authenticated(**{EXTENSION_PLUGIN_AUTHZ_RESOLVER_KEY: lambda *_: True})
        with pytest.raises(PermissionError):
            await arequire_plugin_management(only_sync, "a")
        misplaced = authenticated(**{EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY: lambda *_: True})
        with pytest.raises(PermissionError):
            await arequire_plugin_management(misplaced, "a")

    async def test_cancelling_passes_through(self) -> None:
        entered = asyncio.Event()

        async def slow(*_: object) -> bool:
            entered.set()
            await asyncio.Event().wait()
            return True

        caller = authenticated(**{EXTENSION_PLUGIN_AUTHZ_RESOLVER_ASYNC_KEY: slow})
        task = asyncio.create_task(arequire_plugin_management(caller, "a"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @pytest.mark.parametrize("scope", ["", "READ", "admin", None, True, ["read"], ("read", "write")])
    async def test_another_scope_is_a_value_error_before_anything_is_asked(self, scope: Any) -> None:
        with pytest.raises(ValueError, match="scope"):
            require_plugin_management(None, "a", scope=scope)
        with pytest.raises(ValueError, match="scope"):
            await arequire_plugin_management(None, "a", scope=scope)

    @pytest.mark.parametrize(
        "namespace", ["", "A", "1a", ".a", "a b", "a/b", "ä", "a\n", "a" * 97, None, 7, b"a", ["a"]]
    )
    async def test_another_namespace_is_a_value_error_before_anything_is_asked(self, namespace: Any) -> None:
        with pytest.raises(ValueError, match="namespace"):
            require_plugin_management(None, namespace)
        with pytest.raises(ValueError, match="namespace"):
            await arequire_plugin_management(None, namespace)

    @pytest.mark.parametrize("namespace", ["a", "a.b-c_d9", "a" * 96])
    def test_namespaces_of_the_grammar(self, namespace: str) -> None:
        assert require_plugin_management(self.both(True), namespace) is USER
