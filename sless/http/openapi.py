"""The OpenAPI 3.1 document, generated from the rows of `table` and the validation schemas."""

import re
from collections.abc import Iterable
from typing import Any

from sless._version import __version__
from sless.domain.function_urls import FunctionUrls
from sless.domain.schemas import COMPONENTS, NAME_PATTERN
from sless.http.operation import Operation, Parameter, Reply

NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "ns": {"type": "string", "pattern": NAMESPACE_PATTERN},
    "name": {"type": "string", "pattern": NAME_PATTERN},
    "kind": {"type": "string", "enum": ["functions", "services", "jobs"]},
    "n": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    "id": {"type": "string", "pattern": r"^[A-Za-z0-9._:=+@-]{1,128}$"},
}
_HEADERS = {
    "ETag": "version of the resource, for If-Match",
    "Link": "next page of the list (rel=next)",
    "Location": "URL of the new resource",
}
_TAGS = {
    "namespaces": "Tenants and their usage",
    "functions": "Code that runs when called",
    "services": "Code with permanently running instances and a URL",
    "triggers": "Start functions and services over HTTP, on a schedule, or for messages of a queue",
    "jobs": "One run with a stored result",
    "operators": "Tenants and their limits, for operators (SLESS_OPERATOR_SUBS)",
    "calls": "Calls over HTTP",
    "server": "The server itself",
}


def document(operations: Iterable[Operation], base_url: str, urls: FunctionUrls | None = None) -> dict[str, Any]:
    """`urls` serves calls if functions have other hosts than `base_url`."""
    paths: dict[str, dict[str, Any]] = {}
    for row in operations:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
        if row.tag == "calls" and row.path.startswith("/fn/") and urls is not None and urls.shared_host:
            paths[row.path]["servers"] = [{"url": urls.template.partition("/fn/")[0]}]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sless",
            "version": __version__,
            "description": "Serverless functions. Every answer carries X-Request-Id; all errors have the same shape (Error).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "security": [{"token": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
            "responses": {
                "Error": {
                    "description": "An error; `code` determines the status",
                    "content": {"application/json": {"schema": _ref("Error")}},
                }
            },
        },
    }


def _operation(row: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {str(status): _reply(reply) for status, reply in row.replies.items()}
    # Handlers answer calls with any status and body.
    responses["default"] = (
        {"description": "the handler's answer, or an Error"} if row.any_status else {"$ref": "#/components/responses/Error"}
    )
    described: dict[str, Any] = {"operationId": row.id, "summary": row.summary, "tags": [row.tag], "responses": responses}
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", row.path)] + list(map(_parameter, row.parameters))
    if parameters:
        described["parameters"] = parameters
    if row.bodies:
        content = {media: {"schema": _body_schema(names)} for media, names in row.bodies.items()}
        described["requestBody"] = {"required": row.body_required, "content": content}
    if row.open:
        described["security"] = []
    return described


def _reply(reply: Reply) -> dict[str, Any]:
    described: dict[str, Any] = {"description": reply.text}
    if reply.content:
        described["content"] = {media: _media(name) for media, name in reply.content.items()}
    if reply.headers:
        described["headers"] = {name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in reply.headers}
    return described


def _media(component: str) -> dict[str, Any]:
    match component:
        case "" | "binary":
            return {}
    return {"schema": _ref(component)}


def _body_schema(components: tuple[str, ...]) -> dict[str, Any]:
    if components == ("binary",):
        return {}
    return _ref(components[0]) if len(components) == 1 else {"anyOf": [_ref(name) for name in components]}


def _ref(component: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{component}"}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": _PATH_PARAMETERS[name]}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.text,
        "schema": parameter.schema,
    }
