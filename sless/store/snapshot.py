"""Reads all routes as of one moment, at the cost of what has changed.

All parts of a route have a mark that is cheap to read (ids, generations, states). Only workloads with a new mark are read in full and
decoded: with a thousand functions that is a tenth of the work, and calls wait less for the interpreter.
"""

import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, and_, select

from sless.domain.model import Endpoint, Kind, Trigger, Version
from sless.domain.ports import Route
from sless.domain.routing import route_of
from sless.store.queries import in_batches
from sless.store.tables import endpoints, triggers, versions, workloads
from sless.store.triggers import affects_instances, trigger_of
from sless.store.versions import active_query, newest_query, version_of
from sless.store.workloads import is_shown, workload_of

_CALLABLE = (Kind.FUNCTION, Kind.SERVICE)

Mark = tuple[Any, ...]


class SnapshotReader:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Mark, Route]] = {}

    def read(self, conn: Connection) -> tuple[Route, ...]:
        with self._lock:
            marks = _marks(conn)
            stale = [key for key, mark in marks.items() if key not in self._known or self._known[key][0] != mark]
            fresh: dict[str, Route] = {}
            for batch in in_batches(stale):
                fresh |= _load(conn, batch)
            self._known = {key: (mark, fresh[key] if key in fresh else self._known[key][1]) for key, mark in marks.items()}
            return tuple(route for _, route in self._known.values())


def _marks(conn: Connection) -> dict[str, Mark]:
    """Marks by workload id. A generation covers spec and active version, or a whole trigger; endpoints are compared by their whole row."""
    columns = workloads.c
    observed = (
        columns.observed_generation,
        columns.observed_version,
        columns.observed_failing,
        columns.observed_message,
        columns.observed_wanted,
    )
    suspended = (columns.suspended, columns.tenant_suspended)
    query = select(columns.id, columns.namespace, columns.name, columns.generation, columns.deleted_at.is_(None), *suspended, *observed)
    states: dict[str, Mark] = {}
    for query_of in (newest_query, active_query):
        for key, *mark in conn.execute(query_of().with_only_columns(versions.c.workload_id, versions.c.number, versions.c.state)):
            states[key] = (*states.get(key, ()), *mark)
    by_target: dict[tuple[str, str], Mark] = {}
    for namespace, name, *mark in conn.execute(
        _served_triggers().with_only_columns(triggers.c.namespace, triggers.c.function_ref, triggers.c.id, triggers.c.generation)
    ):
        by_target[namespace, name] = (*by_target.get((namespace, name), ()), *mark)
    instances: dict[str, Mark] = {}
    for row in conn.execute(_ordered_endpoints()):
        instances[row.workload_id] = (*instances.get(row.workload_id, ()), tuple(row))
    return {
        key: (*own, states.get(key), by_target.get((namespace, name)), instances.get(key))
        for key, namespace, name, *own in conn.execute(query.where(columns.kind.in_(_CALLABLE), is_shown()))
    }


def _load(conn: Connection, ids: Sequence[str]) -> dict[str, Route]:
    rows = conn.execute(select(workloads).where(workloads.c.id.in_(ids))).mappings().all()
    active = _versions(conn, active_query(), ids)
    newest = _versions(conn, newest_query(), ids)
    by_target = _triggers_by_target(conn, ids)
    by_workload = _endpoints_by_workload(conn, ids)
    routes = {}
    for workload in map(workload_of, rows):
        routes[workload.id] = route_of(
            workload,
            active=active.get(workload.id),
            newest=newest.get(workload.id),
            triggers=by_target.get((workload.namespace, workload.name), ()),
            endpoints=by_workload.get(workload.id, ()),
        )
    return routes


def _versions(conn: Connection, query: Select[Any], ids: Sequence[str]) -> dict[str, Version]:
    rows = conn.execute(query.where(versions.c.workload_id.in_(ids))).mappings()
    return {row["workload_id"]: version_of(row) for row in rows}


def _served_triggers() -> Select[Any]:
    return select(triggers).where(affects_instances()).order_by(triggers.c.name)


def _triggers_by_target(conn: Connection, ids: Sequence[str]) -> dict[tuple[str, str], tuple[Trigger, ...]]:
    target = and_(triggers.c.namespace == workloads.c.namespace, triggers.c.function_ref == workloads.c.name)
    found: dict[tuple[str, str], tuple[Trigger, ...]] = {}
    for row in conn.execute(_served_triggers().join(workloads, target).where(workloads.c.id.in_(ids))).mappings():
        item = trigger_of(row)
        key = (item.namespace, item.function_ref)
        found[key] = (*found.get(key, ()), item)
    return found


def _ordered_endpoints() -> Select[Any]:
    return select(endpoints).order_by(endpoints.c.created_at, endpoints.c.id)


def _endpoints_by_workload(conn: Connection, ids: Sequence[str]) -> dict[str, tuple[Endpoint, ...]]:
    found: dict[str, tuple[Endpoint, ...]] = {}
    for row in conn.execute(_ordered_endpoints().where(endpoints.c.workload_id.in_(ids))).mappings():
        item = Endpoint(**row)
        found[item.workload_id] = (*found.get(item.workload_id, ()), item)
    return found
