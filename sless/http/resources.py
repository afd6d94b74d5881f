"""Create, list, get, replace, merge and delete: the rows that functions, services, triggers and jobs have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Response

from sless.config import Settings
from sless.domain.model import Trigger, Workload
from sless.http.api_request import ApiRequest
from sless.http.operation import CURSOR, IF_MATCH, JSON, LIMIT, Operation, Parameter, View, shown
from sless.http.paging import name_cursor, paged
from sless.http.serialize import Json, json_response, with_etag

_METHODS = {"create": "POST", "get": "GET", "replace": "PUT", "merge": "PATCH", "delete": "DELETE"}
_STATUS = {"create": 201, "delete": 202}
_WRITING = frozenset({"create", "replace", "merge"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """`noun` is used in paths, tags and operation ids. `usecases` returns the object with the methods create, list, get, replace, merge and
    delete; `row_of` and `json_of` read the views that it returns. `bodies` are the request components without their verb, `written` is the
    answer component of writes."""

    noun: str
    usecases: Callable[[ApiRequest], Any]
    row_of: Callable[[Any], Workload | Trigger]
    json_of: Callable[[Any, Settings], Json]
    bodies: tuple[str, ...]
    written: str
    filters: tuple[Parameter, ...] = ()
    """Further parameters of the list, and the arguments of `list` made from them."""
    filters_of: Callable[[ApiRequest], dict[str, Any]] = lambda req: {}

    def operations(self, summaries: Mapping[str, str]) -> tuple[Operation, ...]:
        """The list, and a row for each verb with a summary."""
        return (self._listing(), *(self._row(verb, summary) for verb, summary in summaries.items()))

    def _row(self, verb: str, summary: str) -> Operation:
        title = self.noun.capitalize()
        component = self.written if verb in _WRITING else title
        return Operation(
            id=f"{verb}{title}",
            method=_METHODS[verb],
            path=self._path if verb == "create" else self._path + "/{name}",
            view=self._view(verb),
            tag=f"{self.noun}s",
            summary=summary,
            bodies={JSON: tuple(f"{body}{verb.capitalize()}" for body in self.bodies)} if verb in _WRITING else {},
            parameters=(IF_MATCH,) if verb in ("replace", "merge", "delete") else (),
            replies={_STATUS.get(verb, 200): shown(component, f"the {self.noun}", "ETag")},
        )

    def _listing(self) -> Operation:
        title = self.noun.capitalize()
        return Operation(
            id=f"list{title}s",
            method="GET",
            path=self._path,
            view=self._list,
            tag=f"{self.noun}s",
            summary=f"All {self.noun}s, by name",
            parameters=(*self.filters, LIMIT, CURSOR),
            replies={200: shown(f"{title}s", f"the {self.noun}s", "Link")},
        )

    @property
    def _path(self) -> str:
        return f"/v1/namespaces/{{ns}}/{self.noun}s"

    def _view(self, verb: str) -> View:
        def view(req: ApiRequest) -> Response:
            found = self._called(verb, req)
            row = self.row_of(found)
            response = json_response(self.json_of(found, req.settings), _STATUS.get(verb, 200))
            if verb == "create":
                response.headers["Location"] = f"/v1/namespaces/{req.namespace}/{self.noun}s/{row.name}"
            return with_etag(response, row.id, row.generation)

        return view

    def _called(self, verb: str, req: ApiRequest) -> Any:
        usecases = self.usecases(req)
        match verb:
            case "create":
                return usecases.create(req.caller, req.namespace, req.json())
            case "get":
                return usecases.get(req.namespace, req.name)
            case "delete":
                return usecases.delete(req.namespace, req.name, req.if_match)
        return getattr(usecases, verb)(req.namespace, req.name, req.json(), req.if_match)

    def _list(self, req: ApiRequest) -> Response:
        after = name_cursor(req)
        return paged(
            req,
            lambda limit: self.usecases(req).list(req.namespace, limit=limit, after=after, **self.filters_of(req)),
            lambda view: self.row_of(view).name,
            lambda view: self.json_of(view, req.settings),
        )
