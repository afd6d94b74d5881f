"""The REST interface: maps a request to a verb and a resource, records it, checks it and executes it."""

import json
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import yaml

from tests.kube import patches, schemas, selectors
from tests.kube.discovery import fixed_of
from tests.kube.errors import Refused
from tests.kube.faults import Faults
from tests.kube.kinds import Kind, find_by_plural, find_of_object
from tests.kube.recorder import Recorder, Request
from tests.kube.registry import DeleteOptions, Object, Registry, Writer
from tests.kube.watching import Watch

MAX_BODY_BYTES = 3 * 2**20
PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One HTTP request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is a value to send as JSON, text, or a stream of bytes."""

    status: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    kind: Kind
    namespace: str
    name: str
    subresource: str


@dataclass(slots=True)
class Api:
    registry: Registry
    recorder: Recorder
    faults: Faults
    read_log: Callable[[Object, dict[str, str]], Any]
    """The log of a Pod: text, or an async iterator of bytes with `follow`. Raises Refused."""
    _pages: dict[str, list[Object]]

    async def answer(self, call: Call) -> Answer:
        request = None
        try:
            fixed = fixed_of(call.path)
            if fixed is not None:
                return Answer(200, fixed)
            target = target_of(call.path)
            request = _request_of(call, target)
            await self.faults.strike(request)
            self.recorder.check_allowed(request)
            if request.verb == "patch" and "apply-patch" in call.headers.get("content-type", "") and not self._exists(target):
                # Applying an object that does not exist requires the right to create it.
                request = replace(request, also="create")
                self.recorder.check_allowed(replace(request, verb="create"))
            answer = self._dispatch(call, target, request)
            await self.faults.strike(request, after=True)
        except Refused as refusal:
            retry = (("Retry-After", "1"),) if refusal.code == 429 else ()
            answer = Answer(refusal.code, refusal.body(), retry)
        if request is not None:
            self.recorder.add(replace(request, status=answer.status))
        return answer

    def _dispatch(self, call: Call, target: Target, request: Request) -> Answer:
        if target.subresource and target.subresource not in target.kind.subresources:
            raise Refused(404, "the server could not find the requested resource")
        match request.verb:
            case "get" if target.subresource == "log":
                pod = self.registry.get("Pod", target.namespace, target.name)
                return Answer(200, self.read_log(pod, call.query))
            case "get":
                return Answer(200, self._get(target))
            case "list":
                return Answer(200, self._list(call, target))
            case "watch":
                return Answer(200, self._watch(call, target).begin())
            case "delete" | "deletecollection":
                return self._delete(call, target)
        return self._write(call, target, request)

    # --- reading ---

    def _get(self, target: Target) -> Object:
        item = self.registry.get(target.kind.kind, target.namespace, target.name)
        if target.subresource == "scale":
            return {
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": item["metadata"],
                "spec": {"replicas": item["spec"]["replicas"]}, "status": {"replicas": (item.get("status") or {}).get("replicas", 0)},
            }  # fmt: skip
        return item

    def _selected(self, call: Call, target: Target) -> Callable[[Object], bool]:
        by_label = selectors.labels_match(call.query.get("labelSelector", ""))
        by_field = selectors.fields_match(target.kind.kind, call.query.get("fieldSelector", ""))
        name = target.name
        return lambda item: by_label(item) and by_field(item) and (not name or item["metadata"]["name"] == name)

    def _list(self, call: Call, target: Target) -> Object:
        if token := call.query.get("continue"):
            items = self._pages.pop(token, None)
            if items is None or self.faults.expire_continue:
                raise Refused(410, "The provided continue parameter is too old to display a consistent list result.")
        else:
            takes = self._selected(call, target)
            items = [item for item in self.registry.items(target.kind.kind, target.namespace or None) if takes(item)]
        metadata: Object = {"resourceVersion": str(self.registry.revision)}
        limit = int(call.query.get("limit") or 0)
        if limit and len(items) > limit:
            metadata |= {"continue": f"page-{self.registry.revision}-{time.monotonic_ns()}", "remainingItemCount": len(items) - limit}
            self._pages[metadata["continue"]] = items[limit:]
            items = items[:limit]
        if "as=PartialObjectMetadataList" in call.headers.get("accept", ""):
            part = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            partial = [{**part, "metadata": item["metadata"]} for item in items]
            return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": partial}
        # List items have neither kind nor apiVersion, as from the real server.
        shown = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
        return {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version, "metadata": metadata, "items": shown}

    def _watch(self, call: Call, target: Target) -> Watch:
        matches = self._selected(call, target)
        partial = "as=PartialObjectMetadata;" in call.headers.get("accept", "")
        return Watch(
            registry=self.registry, kind=target.kind, namespace=target.namespace, query=call.query, matches=matches, metadata_only=partial
        )  # fmt: skip

    # --- writing ---

    def _write(self, call: Call, target: Target, request: Request) -> Answer:
        how = PATCHES.get(call.headers.get("content-type", "").partition(";")[0])
        if request.verb == "patch" and how is None:
            raise Refused(415, f"the body of the request was in an unknown format: {call.headers.get('content-type')}")
        body = _body_of(call)
        writer = Writer(manager=request.manager, subresource=target.subresource, force=call.query.get("force") == "true")
        if request.verb == "patch" and how == "apply" and not call.query.get("fieldManager"):
            raise Refused(422, 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch')
        if target.subresource == "eviction":
            self._checked(body, None)
            return self._delete(replace(call, body=b""), replace(target, subresource=""))
        if call.query.get("dryRun"):
            raise Refused(400, "dryRun is not served by the stand-in")
        before = len(self.registry.warnings)
        answer = self._written(target, (request.verb, how), body, writer)
        warnings = tuple(("Warning", f'299 - "{text}"') for text in self.registry.warnings[before:])
        return replace(answer, headers=warnings)

    def _written(self, target: Target, what: tuple[str, str | None], body: Any, writer: Writer) -> Answer:
        kind, key = target.kind, (target.namespace, target.name)
        match what:
            case ("create", _):
                return Answer(201, self.registry.create(kind, target.namespace, self._checked(body, kind), writer))
            case ("update", _):
                return Answer(200, self.registry.replace(kind, *key, self._checked(body, kind), writer))
            case (_, "apply"):
                item, new = self.registry.apply(kind, key, self._checked(body, kind, partial=self._exists(target)), writer)
                return Answer(201 if new else 200, item)
        # Other patches are partial objects, so the result is checked.
        old = self.registry.get(kind.kind, *key)
        self._check_patched(kind, old, what[1] or "", body)
        return Answer(200, self.registry.patch(kind, key, what[1] or "", body, writer))

    def _check_patched(self, kind: Kind, old: Object, how: str, body: Any) -> None:
        schema = schemas.resolve(schemas.schema_of(kind.kind, kind.api_version))
        self._checked(patches.patched(how, json.loads(json.dumps(old)), body, schema), kind)

    def _exists(self, target: Target) -> bool:
        return self.registry.find(target.kind.kind, target.namespace, target.name) is not None

    def _checked(self, body: Any, kind: Kind | None, *, partial: bool = False) -> Object:
        """Raises Refused (422) for a body that either schema rejects, and records it."""
        if not isinstance(body, dict):
            raise Refused(400, "the object provided is unrecognized (must be of type Object)")
        body = dict(body)
        if kind is not None:
            body.setdefault("apiVersion", kind.api_version)
            body.setdefault("kind", kind.kind)
            if find_of_object(body) is not kind:
                raise Refused(
                    400, f"the API version in the data ({body['apiVersion']} {body['kind']}) does not match the expected ({kind.kind})"
                )
        mistakes = schemas.mistakes_of(body, partial=partial)
        if mistakes:
            self.recorder.violations += mistakes
            name = body.get("metadata", {}).get("name", "") if isinstance(body.get("metadata"), dict) else ""
            raise Refused(422, f'{body.get("kind")} "{name}" is invalid: ' + "; ".join(mistakes))
        return body

    def _delete(self, call: Call, target: Target) -> Answer:
        options = self._delete_options(call)
        if target.name:
            item, gone = self.registry.delete(target.kind, target.namespace, target.name, options)
            if not gone:
                return Answer(200, item)
            details = {"name": target.name, "kind": target.kind.plural, "uid": item["metadata"]["uid"]}
            return Answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
        takes = self._selected(call, target)
        chosen = [item for item in self.registry.items(target.kind.kind, target.namespace) if takes(item)]
        for item in chosen:
            self.registry.delete(target.kind, target.namespace, item["metadata"]["name"], options)
        return Answer(200, {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version, "metadata": {}, "items": chosen})

    def _delete_options(self, call: Call) -> DeleteOptions:
        body = _body_of(call) if call.body else {}
        if body:
            self._checked({"apiVersion": "v1", "kind": "DeleteOptions", **body}, None)
        grace = body.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
        preconditions = body.get("preconditions") or {}
        return DeleteOptions(
            grace_sec=None if grace is None else int(grace),
            propagation=body.get("propagationPolicy") or call.query.get("propagationPolicy", ""),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
        )


def target_of(path: str) -> Target:
    """Raises Refused (404) for a path that does not name a resource."""
    parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise Refused(404, "the server could not find the requested resource")
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and find_by_plural(group, version, rest[2]):
        namespace, rest = rest[1], rest[2:]
    kind = find_by_plural(group, version, rest[0]) if rest else None
    if kind is None or len(rest) > 3:
        raise Refused(404, "the server could not find the requested resource")
    name, subresource = [*rest[1:], "", ""][:2]
    return Target(kind=kind, namespace=namespace, name=name, subresource=subresource)


def _request_of(call: Call, target: Target) -> Request:
    watching = call.query.get("watch") in ("true", "1", "True")
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get", "HEAD": "get", "DELETE": "delete"}
    verb = verbs.get(call.method)
    if verb is None or (call.method in ("PUT", "PATCH") and not target.name):
        raise Refused(405, "the server does not allow this method on the requested resource")
    if verb == "get" and (watching or not target.name):
        verb = "watch" if watching else "list"
    if verb == "delete" and not target.name:
        verb = "deletecollection"
    token = call.headers.get("authorization", "").removeprefix("Bearer ")
    agent = call.headers.get("user-agent", "unknown").partition("/")[0]
    return Request(
        verb=verb, group=target.kind.group, resource=target.kind.plural, subresource=target.subresource,
        namespace=target.namespace, name=target.name, user=token or "anonymous", manager=call.query.get("fieldManager") or agent,
        path=call.path, query=urllib.parse.urlencode(call.query),
    )  # fmt: skip


def _body_of(call: Call) -> Any:
    if len(call.body) > MAX_BODY_BYTES:
        raise Refused(422, f"Request entity too large: limit is {MAX_BODY_BYTES}", reason="RequestEntityTooLarge")
    try:
        return json.loads(call.body)
    except ValueError:
        if "yaml" not in call.headers.get("content-type", ""):
            raise Refused(400, "the body of the request is not JSON") from None
    try:
        return yaml.safe_load(call.body)
    except yaml.YAMLError as error:
        raise Refused(400, f"error decoding YAML: {error}") from None
