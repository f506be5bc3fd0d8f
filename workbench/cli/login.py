"""Accounts: ``login``, ``logout``, ``sessions``. A password is read from the terminal, without echo."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, connected, err, find_workspace, out, print_json, run_async
from .exits import Exit

if TYPE_CHECKING:
    from workbench.host.accounts import Accounts
    from workbench.workspace import Workspace


@click.command()
@click.argument("name", required=False)
@click.option("--create", is_flag=True, help="Create the account NAME; nobody is logged in by that.")
@click.option("--admin", is_flag=True, help="With --create: the account is an administrator's.")
@common
def login(name: str | None, create: bool, admin: bool, workspace: Path | None, as_json: bool) -> int:
    """Log in to a workspace with accounts, or create an account.

    NAME is the account; without it, the one that is called like your user.
    """
    from workflows_core.errors import UsageError

    space = find_workspace(workspace)
    if create:
        if name is None:
            raise UsageError("--create needs the NAME of the account")
        return _create(space, name, admin=admin, as_json=as_json)
    if admin:
        raise UsageError("--admin belongs to --create")
    _require_accounts(space)
    return _log_in(space, name if name is not None else _own_name(), as_json=as_json)


@click.command()
@common
def logout(workspace: Path | None, as_json: bool) -> int:
    """End your session in a workspace with accounts."""
    from workbench.login import forget_login, load_login

    space = find_workspace(workspace)
    kept = load_login(space.root)
    ended = False
    if kept is not None:
        with _accounts(space) as accounts:
            ended = accounts.revoke(kept.session_id)
        forget_login(space.root)
    if as_json:
        print_json({"user_id": None if kept is None else kept.user_id, "ended": ended})
    elif kept is None:
        err().line("Nobody was logged in here.")
    else:
        out().line(f"{kept.user_id} is logged out." if ended else f"The session of {kept.user_id} had ended.")
    return Exit.DONE


@click.command()
@click.option("--end", "session", metavar="SESSION", help="End this session; its runs go no further.")
@click.option("--disable", "account", metavar="NAME", help="Disable this account and end its sessions.")
@common
def sessions(session: str | None, account: str | None, workspace: Path | None, as_json: bool) -> int:
    """List who uses this workspace; end sessions and accounts."""
    space = find_workspace(workspace)
    if session is not None or account is not None:
        _require_accounts(space)
        with _accounts(space) as accounts:
            _end(accounts, session, account)
    document = _listed(space)
    if as_json:
        print_json(document)
        return Exit.DONE
    stream = out()
    for each in document["sessions"]:
        mine = "  this one" if each["current"] else ""
        stream.line((each["session_id"], "quiet"), f"  {each['user_id']}  {each['description']}{mine}")
    for each in document["accounts"]:
        roles = f" ({', '.join(each['roles'])})" if each["roles"] else ""
        state = "disabled" if each["disabled"] else "may log in"
        stream.line(("account ", "quiet"), f"{each['user_id']}{roles}: {state}")
    if not document["sessions"]:
        err().line("There are no sessions.")
    return Exit.DONE


def ask_secret(prompt: str) -> str:
    """Read a secret from the terminal without showing it. Raises UsageError where there is no terminal."""
    from workflows_core.errors import UsageError

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("a password is read from a terminal, and there is none; run this command in one")
    import getpass

    try:
        return getpass.getpass(prompt)
    except EOFError:
        raise click.Abort from None


def _create(workspace: Workspace, name: str, *, admin: bool, as_json: bool) -> int:
    from workbench.host.accounts import ADMIN_ROLE
    from workflows_core.errors import UsageError

    password = ask_secret(f"Password for {name}: ")
    if ask_secret("The same again: ") != password:
        raise UsageError("the two passwords differ; no account was created")
    with _accounts(workspace) as accounts:
        made = accounts.create(name, password, [ADMIN_ROLE] if admin else [])
    if as_json:
        print_json({"user_id": made.user_id, "roles": list(made.roles)})
    else:
        out().line(f"The account {made.user_id} was created. Log in with: workbench login {made.user_id}")
    mode = workspace.config.auth.mode
    if mode != "password":
        err().line((f"This workspace has auth.mode {mode}, which uses no accounts.", "waiting"))
    return Exit.DONE


def _log_in(workspace: Workspace, name: str, *, as_json: bool) -> int:
    from workbench.login import StoredLogin, keep_login, load_login
    from workflows_core.errors import NotFound
    from workflows_core.model import iso

    with _accounts(workspace) as accounts:
        if not accounts.all():
            raise NotFound("there are no accounts yet; create one with: workbench login NAME --create")
        password = ask_secret(f"Password for {name}: ")
        opened = accounts.log_in(name, password, _where())
        before = load_login(workspace.root)
        session = opened.session
        keep_login(workspace.root, StoredLogin(name, session.session_id, opened.token, opened.expires_at))
        if before is not None:
            accounts.revoke(before.session_id)
    if as_json:
        print_json(
            {
                "user_id": name,
                "session_id": session.session_id,
                "roles": list(opened.principal.roles),
                "expires_at": iso(opened.expires_at),
            }
        )
    else:
        out().line(f"{name} is logged in until {iso(opened.expires_at)}.")
    return Exit.DONE


def _end(accounts: Accounts, session: str | None, account: str | None) -> None:
    from workflows_core.errors import NotFound

    if session is not None:
        if not accounts.revoke(session):
            raise NotFound(f"there is no session {session} that could be ended")
        err().line(f"{session} has ended.")
    if account is not None:
        accounts.disable(account)
        err().line(f"The account {account} is disabled, and its sessions have ended.")


def _listed(workspace: Workspace) -> dict[str, Any]:
    """``{mode, sessions, accounts}``. Without accounts: those that hold a handle in the owner's process."""
    from workflows_core.model import iso

    mode = workspace.config.auth.mode
    if mode != "password":
        return {"mode": mode, "sessions": _handles(workspace), "accounts": []}
    from workbench.login import load_login

    kept = load_login(workspace.root)
    with _accounts(workspace) as accounts:
        return {
            "mode": mode,
            "sessions": [
                {
                    "session_id": each.session_id,
                    "user_id": each.user_id,
                    "description": each.description,
                    "created_at": iso(each.created_at),
                    "expires_at": iso(each.expires_at),
                    "current": kept is not None and kept.session_id == each.session_id,
                }
                for each in accounts.sessions()
            ],
            "accounts": [
                {
                    "user_id": each.user_id,
                    "roles": list(each.roles),
                    "disabled": each.disabled,
                    "created_at": iso(each.created_at),
                }
                for each in accounts.all()
            ],
        }


def _handles(workspace: Workspace) -> list[dict[str, Any]]:
    from workflows_core.store.lock import lock_path, owner_pid

    if owner_pid(lock_path(workspace.storage_path)) is None:
        return []

    async def ask() -> list[dict[str, Any]]:
        async with connected(workspace, "never") as client:
            return await client.sessions()

    return [
        {
            "session_id": each["session_id"],
            "user_id": each["user_id"],
            "description": each["description"],
            "created_at": None,
            "expires_at": None,
            "current": each["session_id"].startswith(f"terminal:{os.getpid()}:"),
        }
        for each in run_async(ask)
    ]


@contextmanager
def _accounts(workspace: Workspace) -> Iterator[Accounts]:
    """The accounts, in the host's store, beside whoever owns the workspace."""
    from workbench.host.accounts import Accounts
    from workbench.host.store import HostStore

    workspace.make_state_dir()
    store = HostStore.open(workspace.host_store_path)
    try:
        yield Accounts(store)
    finally:
        store.close()


def _require_accounts(workspace: Workspace) -> None:
    """Raises UsageError where the workspace does not use accounts."""
    from workflows_core.errors import UsageError

    mode = workspace.config.auth.mode
    if mode != "password":
        raise UsageError(
            f"this workspace has auth.mode {mode}, which uses no accounts; nobody needs to log in",
            code="no_accounts",
        )


def _own_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _where() -> str:
    from workbench.host.identity import terminal

    return terminal().name or "no terminal"
