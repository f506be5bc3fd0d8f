"""Public submodule: from a runtime to the store of its task."""

from __future__ import annotations

from .state import EXTENSION_TASK_STORE_KEY, task_store_from_runtime

__all__ = ["EXTENSION_TASK_STORE_KEY", "task_store_from_runtime"]
