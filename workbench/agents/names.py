"""Names of the agent backends, for configuration that is read without them."""

from __future__ import annotations

from typing import Final

STUB: Final = "stub"
OPENAI: Final = "openai"
DEERFLOW: Final = "deerflow"
COMMAND: Final = "command"
MANUAL: Final = "manual"

#: Every backend that ``workbench.yaml`` may name, whether or not this build has it.
BACKEND_NAMES: Final = (STUB, MANUAL, OPENAI, DEERFLOW, COMMAND, "langchain")
