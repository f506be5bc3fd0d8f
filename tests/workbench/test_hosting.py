"""A client that hosts the engine later: when it was asked to, or when something needs it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.client import Client
from workbench.workspace import Workspace
from workflows_core.engine.requests import LaunchRequest
from workflows_core.errors import ConfigurationError
from workflows_core.model import RunState


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "later"
    root.mkdir()
    return Workspace.find(root, root)


def request(workspace: Workspace, number: int) -> LaunchRequest:
    return LaunchRequest(
        script=f"return {number};",
        args={},
        name="later",
        request_id=f"req_{number}",
        options=workspace.options(),
    )


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_nothing_is_hosted_before_it_is_asked_for(workspace: Workspace) -> None:
    client = await Client.open(workspace, host="later")
    try:
        assert client.owner_pid() is None
        assert await client.runs() == []
        assert not workspace.storage_path.exists()
        assert await client.start_hosting()
        assert client.owner and client.owner_pid() == os.getpid()
        assert await client.start_hosting()
    finally:
        await client.close()


async def test_who_subscribed_before_is_told_by_the_engine_after(workspace: Workspace) -> None:
    client = await Client.open(workspace, host="later")
    told: list[str] = []
    try:
        client.subscribe(told.append)
        await client.start_hosting()
        assert client._watcher is None
        outcome = await client.launch(request(workspace, 1))
        await client.wait_idle()
        await until(lambda: outcome.run_id in told)
        assert (await client.summary(outcome.run_id)).state is RunState.COMPLETED
    finally:
        await client.close()


async def test_only_one_process_hosts(workspace: Workspace) -> None:
    owner = await Client.open(workspace, host="required")
    other = await Client.open(workspace, host="later")
    try:
        assert not await other.start_hosting()
        outcome = await other.launch(request(workspace, 2))
        await owner.wait_idle()
        assert (await other.summary(outcome.run_id)).state is RunState.COMPLETED
    finally:
        await other.close()
        await owner.close()


async def test_asking_twice_at_once_opens_one_host(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    real = Client._open_host

    async def counted(workspace: Workspace, *, required: bool) -> object:
        opened.append(workspace)
        return await real(workspace, required=required)

    monkeypatch.setattr(Client, "_open_host", staticmethod(counted))
    client = await Client.open(workspace, host="later")
    try:
        assert all(await asyncio.gather(client.start_hosting(), client.start_hosting()))
        assert len(opened) == 1
    finally:
        await client.close()


async def test_a_workspace_that_cannot_be_hosted_says_why(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(workspace: Workspace, *, required: bool) -> None:
        raise ConfigurationError("the plugin cannot be loaded")

    monkeypatch.setattr(Client, "_open_host", staticmethod(refuse))
    client = await Client.open(workspace, host="later")
    try:
        with pytest.raises(ConfigurationError):
            await client.start_hosting()
        assert not client.owner
    finally:
        await client.close()
