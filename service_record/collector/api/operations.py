"""All operations of the HTTP interface, and their OpenAPI document.

Importing this module imports all handlers, so `OPERATIONS` is complete.
"""

from functools import cache
from typing import Any

from starlette.requests import Request

from service_record.collector.api import (  # noqa: F401  # their decorators add the operations
    admin_calls,
    bundle_calls,
    host_calls,
    metrics,
    mute_calls,
    record_calls,
    step_calls,
)
from service_record.collector.api.answering import JsonAnswer
from service_record.collector.api.openapi import document
from service_record.collector.api.operation import OPERATIONS, READERS, operation
from service_record.collector.assisted import (  # noqa: F401  # their decorators add the operations
    assisted_calls,
    cluster_calls,
)

__all__ = ["OPERATIONS", "openapi_document"]


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of all operations."""
    return document(OPERATIONS)


@operation("GET /api/v1/openapi.json", who=READERS)
async def get_document(_: Request) -> JsonAnswer[dict[str, Any]]:
    """The OpenAPI document of the interface."""
    return JsonAnswer(openapi_document())
