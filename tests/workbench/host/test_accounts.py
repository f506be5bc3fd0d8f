from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.host.accounts import FREE_FAILURES, LOCK_SECONDS, SESSION_SECONDS, Accounts, Cost
from workbench.host.store import HostStore
from workflows_core.errors import Conflict, NotFound, NotPermitted, UsageError

SECOND = 1_000_000
PASSWORD = "correct horse"


class Clock:
    at = 1_000 * SECOND

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(tmp_path: Path, clock: Clock) -> Iterator[Accounts]:
    store = HostStore.open(tmp_path / "host.sqlite")
    made = Accounts(store, cost=Cost(n=16, r=1), clock=clock)
    made.create("ada", PASSWORD, roles=("reviewer", "admin"))
    yield made
    store.close()


def test_a_log_in_gives_a_principal_with_roles(accounts: Accounts) -> None:
    found = accounts.log_in("ada", PASSWORD, "pts/3")
    assert (found.principal.user_id, found.principal.is_admin) == ("ada", True)
    assert found.principal.roles == ("admin", "reviewer")
    assert (found.session.mode, found.session.interactive) == ("password", False)
    assert found.session.description == "password, account ada, pts/3"
    again = accounts.resume(found.token)
    assert (again.session, again.principal) == (found.session, found.principal)


def test_neither_password_nor_token_is_in_the_store(tmp_path: Path, accounts: Accounts) -> None:
    token = accounts.log_in("ada", PASSWORD, "x").token
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert PASSWORD.encode() not in data and token.encode() not in data


def test_a_wrong_name_and_a_wrong_password_look_the_same(accounts: Accounts) -> None:
    messages = set()
    for name, password in (("ada", "wrong horse"), ("bob", PASSWORD), ("", "")):
        with pytest.raises(NotPermitted) as caught:
            accounts.log_in(name, password, "x")
        messages.add((caught.value.code, caught.value.message))
    assert messages == {("not_permitted", "the name or the password is wrong")}


def test_failures_in_a_row_lock_the_account_for_longer_and_longer(accounts: Accounts, clock: Clock) -> None:
    def fail() -> None:
        with pytest.raises(NotPermitted, match="wrong"):
            accounts.log_in("ada", "wrong horse", "x")

    for _ in range(FREE_FAILURES):
        fail()
    for lock in (LOCK_SECONDS, 2 * LOCK_SECONDS):
        with pytest.raises(NotPermitted, match=f"try again in {lock} s") as caught:
            accounts.log_in("ada", PASSWORD, "x")
        assert caught.value.code == "throttled"
        clock.at += lock * SECOND
        fail()
    clock.at += 3600 * SECOND
    accounts.log_in("ada", PASSWORD, "x")
    fail()
    accounts.log_in("ada", PASSWORD, "x")


def test_a_disabled_account_and_its_sessions_end(accounts: Accounts) -> None:
    found = accounts.log_in("ada", PASSWORD, "x")
    assert accounts.valid(found.session.session_id)
    accounts.disable("ada")
    assert accounts.get("ada").disabled
    assert not accounts.valid(found.session.session_id)
    for attempt in (lambda: accounts.resume(found.token), lambda: accounts.log_in("ada", PASSWORD, "x")):
        with pytest.raises(NotPermitted):
            attempt()


def test_sessions_end_by_revocation_and_in_time(accounts: Accounts, clock: Clock) -> None:
    first, second = (accounts.log_in("ada", PASSWORD, "x") for _ in range(2))
    assert accounts.revoke(first.session.session_id)
    assert not accounts.revoke(first.session.session_id)
    assert accounts.by_session(first.session.session_id) is None
    assert accounts.by_session(5) is None
    assert accounts.valid(second.session.session_id)
    clock.at += SESSION_SECONDS * SECOND
    assert not accounts.valid(second.session.session_id)
    with pytest.raises(NotPermitted, match="log in again"):
        accounts.resume(second.token)
    with pytest.raises(NotPermitted):
        accounts.resume("made up \ud800")


@pytest.mark.parametrize("name", ["", "-a", "a b", "a" * 65, "é", "a\n"])
def test_unusable_names(accounts: Accounts, name: str) -> None:
    with pytest.raises(UsageError):
        accounts.create(name, PASSWORD)


@pytest.mark.parametrize("password", ["", "short", "x" * 1025])
def test_unusable_passwords(accounts: Accounts, password: str) -> None:
    with pytest.raises(UsageError):
        accounts.create("bob", password)


def test_names_are_unique_and_known(accounts: Accounts) -> None:
    with pytest.raises(Conflict):
        accounts.create("ada", "another password")
    accounts.log_in("ada", PASSWORD, "x")
    for look in (accounts.get, accounts.disable):
        with pytest.raises(NotFound):
            look("bob")


def test_accounts_and_the_sessions_that_may_act_are_listed(accounts: Accounts, clock: Clock) -> None:
    accounts.create("bob", PASSWORD)
    first = accounts.log_in("ada", PASSWORD, "pts/1")
    clock.at += SECOND
    second = accounts.log_in("bob", PASSWORD, "pts/2")
    assert [(each.user_id, each.roles, each.disabled) for each in accounts.all()] == [
        ("ada", ("admin", "reviewer"), False),
        ("bob", (), False),
    ]
    listed = accounts.sessions()
    assert [each.session_id for each in listed] == [first.session.session_id, second.session.session_id]
    assert (listed[0].description, listed[0].expires_at) == (first.session.description, first.expires_at)
    accounts.revoke(first.session.session_id)
    accounts.disable("bob")
    assert accounts.sessions() == [] and accounts.all()[1].disabled
    accounts.log_in("ada", PASSWORD, "pts/1")
    clock.at += SESSION_SECONDS * SECOND
    assert accounts.sessions() == []
