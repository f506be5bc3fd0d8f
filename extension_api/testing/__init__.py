"""The test kit: try an extension without a host.

``HostDriver`` loads an extension and fires every event; ``FakeRegistry`` records what an install function
contributes; ``FakeAgentRuns``, ``FakeRunEvidence`` and ``FakeExecutionLeases`` answer as a test scripts them.
"""

from __future__ import annotations

from .agents import Answer, FakeAgentRuns
from .evidence import FakeRunEvidence
from .host import HostDriver, Task
from .leases import FakeExecutionLeases
from .objects import FakeRuntime, fake_descriptor, fake_request
from .registry import Diagnostic, FakeRegistry, Registered

__all__ = [
    "Answer",
    "Diagnostic",
    "FakeAgentRuns",
    "FakeExecutionLeases",
    "FakeRegistry",
    "FakeRunEvidence",
    "FakeRuntime",
    "HostDriver",
    "Registered",
    "Task",
    "fake_descriptor",
    "fake_request",
]
