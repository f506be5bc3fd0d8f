"""Routes need FastAPI, which only a host with a gateway has; without it there are none."""

from __future__ import annotations

from typing import Any

from deerflow_extension_api import resolve_principal


def routers() -> list[Any]:
    try:
        from fastapi import APIRouter, HTTPException, Request
    except ImportError:
        return []
    router = APIRouter(prefix="/run-ledger")

    @router.get("/me")
    def me(request: Request) -> dict[str, Any]:
        principal = resolve_principal(request)
        if principal is None:
            raise HTTPException(401)
        return {"user_id": principal.user_id}

    return [router]
