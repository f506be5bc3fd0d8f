"""Accounts: ``login``, ``logout``, ``sessions``. A password is read from the terminal, without echo."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .common import common, connected, err, find_workspace, out, print_json, run_async
from .exits import Exit

if TYPE_CHECKING:
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
    return _log_in(space, name, as_json=as_json)


@click.command()
@common
def logout(workspace: Path | None, as_json: bool) -> int:
    """End your session in a workspace with accounts."""
    from workbench.login import log_out

    kept, ended = log_out(find_workspace(workspace))
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
    from workbench.login import end_session, opened_accounts, require_accounts

    space = find_workspace(workspace)
    if session is not None:
        end_session(space, session)
        err().line(f"{session} has ended.")
    if account is not None:
        require_accounts(space)
        with opened_accounts(space) as accounts:
            accounts.disable(account)
        err().line(f"The account {account} is disabled, and its sessions have ended.")
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
    from workbench.login import opened_accounts
    from workflows_core.errors import UsageError

    password = ask_secret(f"Password for {name}: ")
    if ask_secret("The same again: ") != password:
        raise UsageError("the two passwords differ; no account was created")
    with opened_accounts(workspace) as accounts:
        made = accounts.create(name, password, [ADMIN_ROLE] if admin else [])
    if as_json:
        print_json({"user_id": made.user_id, "roles": list(made.roles)})
    else:
        out().line(f"The account {made.user_id} was created. Log in with: workbench login {made.user_id}")
    mode = workspace.config.auth.mode
    if mode != "password":
        err().line((f"This workspace has auth.mode {mode}, which uses no accounts.", "waiting"))
    return Exit.DONE


def _log_in(workspace: Workspace, name: str | None, *, as_json: bool) -> int:
    from workbench.login import log_in, opened_accounts, own_name, require_accounts, require_an_account
    from workflows_core.model import iso

    require_accounts(workspace)
    with opened_accounts(workspace) as accounts:
        require_an_account(accounts)  # before the password is asked for
    name = own_name() if name is None else name
    opened = log_in(workspace, name, ask_secret(f"Password for {name}: "))
    if as_json:
        print_json(
            {
                "user_id": name,
                "session_id": opened.session.session_id,
                "roles": list(opened.principal.roles),
                "expires_at": iso(opened.expires_at),
            }
        )
    else:
        out().line(f"{name} is logged in until {iso(opened.expires_at)}.")
    return Exit.DONE


def _listed(workspace: Workspace) -> dict[str, Any]:
    """``{mode, sessions, accounts}``. Without accounts: those that hold a handle in the owner's process."""
    from workflows_core.model import iso

    mode = workspace.config.auth.mode
    if mode != "password":
        return {"mode": mode, "sessions": _handles(workspace), "accounts": []}
    from workbench.login import load_login, opened_accounts

    kept = load_login(workspace.root)
    with opened_accounts(workspace) as accounts:
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
