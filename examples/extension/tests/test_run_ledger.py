"""The extension without a host, in ten lines."""

from __future__ import annotations

from run_ledger import install

from extension_api.testing import HostDriver


async def test_a_task_is_counted_and_can_be_asked_for() -> None:
    host = HostDriver()
    host.load(install)
    async with host:
        async with host.task(agent_name="lead_agent"):
            pass
        answer = await host.call_action("samples.run_ledger", "summary")
    assert answer["counts"] == {"lead completed": 1}
    assert host.diagnostics == []
