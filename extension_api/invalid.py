"""The error for a contribution that breaks a rule."""

from __future__ import annotations


class InvalidContribution(ValueError):
    """A declaration breaks a rule of the contract. Raised by ``registry.plugin()``, so the install fails.

    ``rule`` is a stable identifier of the rule, for example ``namespace`` or ``assets.symlink``; the message
    says what was found and what is allowed, with text from outside in printable ASCII.
    """

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


def shown(value: object) -> str:
    """``value`` for an error message: printable ASCII, at most 60 characters, a foreign type by name only."""
    if value is None or isinstance(value, (bool, int, float)):
        text = str(type(value).__name__) if isinstance(value, int) and abs(value) > 10**20 else repr(value)
    elif isinstance(value, str):
        text = ascii(str.__str__(value)[:80])
    else:
        text = f"a value of type {ascii(type(value).__name__)[1:-1]}"
    return text if len(text) <= 60 else text[:57] + "..."
