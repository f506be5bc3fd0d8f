"""Stamps that tell an injected message from a person's own (contract 0.2.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MESSAGE_CONTENT_KIND_KEY: Final = "deerflow_content_kind"
MESSAGE_PRODUCER_KIND_KEY: Final = "deerflow_producer_kind"
MESSAGE_PRODUCER_ENTITY_ID_KEY: Final = "deerflow_producer_entity_id"

PROVENANCE_KEYS: Final = frozenset(
    {MESSAGE_CONTENT_KIND_KEY, MESSAGE_PRODUCER_KIND_KEY, MESSAGE_PRODUCER_ENTITY_ID_KEY}
)
"""The host owns these keys, and strips them from input that it does not trust."""


class ContentKind(StrEnum):
    """What kind of content was injected. A stamp may hold a kind that a newer host knows, as a string."""

    MIDDLEWARE_INJECTION = "middleware_injection"
    MEMORY = "memory"
    DURABLE_CONTEXT = "durable_context"
    SKILL_BODY = "skill_body"
    IMAGE_PAYLOAD = "image_payload"


@dataclass(frozen=True)
class MessageProvenance:
    """A stamp as it was read."""

    content_kind: str
    producer_kind: str
    producer_entity_id: str | None = None


def provenance_kwargs(
    content_kind: ContentKind | str, producer_kind: str, *, producer_entity_id: str | None = None
) -> dict[str, str]:
    """The part of ``additional_kwargs`` that stamps a message. Its values are plain strings."""
    stamp = {MESSAGE_CONTENT_KIND_KEY: str(content_kind), MESSAGE_PRODUCER_KIND_KEY: str(producer_kind)}
    if producer_entity_id is not None:
        stamp[MESSAGE_PRODUCER_ENTITY_ID_KEY] = str(producer_entity_id)
    return stamp


def read_provenance(message: object) -> MessageProvenance | None:
    """The stamp on ``message.additional_kwargs``, or None where a required key is missing or not a string."""
    kwargs = getattr(message, "additional_kwargs", None)
    if not isinstance(kwargs, Mapping):
        return None
    content_kind = kwargs.get(MESSAGE_CONTENT_KIND_KEY)
    producer_kind = kwargs.get(MESSAGE_PRODUCER_KIND_KEY)
    if not isinstance(content_kind, str) or not isinstance(producer_kind, str):
        return None
    entity = kwargs.get(MESSAGE_PRODUCER_ENTITY_ID_KEY)
    return MessageProvenance(content_kind, producer_kind, entity if isinstance(entity, str) else None)
