"""Triggers. They are only stored here: http triggers take effect through routes, the others through their loops."""

import json
from dataclasses import replace
from typing import Any

from sless import clock
from sless.config import Settings
from sless.domain.addresses import find_literal, may_reach, parse_allowed
from sless.domain.amqp import parse_broker_url, refusal_of
from sless.domain.limits import LimitName
from sless.domain.model import Kind, Run, Trigger, TriggerType
from sless.domain.runs import fired_run
from sless.domain.spec import Mode, check_event_size, run_event_of
from sless.domain.trigger_spec import AMQP_URL, KEY_HASH, ParsedTrigger, new_key, parse_trigger
from sless.errors import Code, Detail, Invalid, NotFound, SlessError
from sless.tokens import Caller
from sless.usecases.parts import UseCaseParts, check_match, etag_of, merge_until_written, refuse_suspended
from sless.usecases.views import TriggerView, trigger_view_of, view_trigger


class Triggers:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def create(self, caller: Caller, namespace: str, body: Any) -> TriggerView:
        """Raises Invalid, EXISTS, LIMIT_REACHED, CONFLICT for a second http trigger of one target."""
        parsed = parse_trigger(body)
        _check_broker(namespace, parsed, self._parts.settings)
        tenant = self._parts.ensure_tenant(caller, namespace)
        self._parts.check_count(tenant, LimitName.TRIGGERS)
        secrets, key = _with_key(parsed)
        trigger = self._store.triggers.insert(
            namespace,
            name=parsed.name,
            type=parsed.type,
            function_ref=parsed.function_ref,
            enabled=parsed.enabled,
            spec=parsed.spec,
            secrets=secrets,
        )
        self._parts.wake("routes", "instances", "cron", "events")
        return view_trigger(self._store, trigger, key)

    def get(self, namespace: str, name: str) -> TriggerView:
        return view_trigger(self._store, self._store.triggers.get(namespace, name))

    def list(self, namespace: str, *, limit: int | None, after: str | None, active: bool | None = None) -> list[TriggerView]:
        """`active` filters: True only triggers that can work, False only those that cannot."""
        found = self._store.triggers.list_in(namespace, limit=limit if active is None else None, after_name=after)
        targets = {item.name: item for item in self._store.workloads.list_in(namespace, [Kind.FUNCTION, Kind.SERVICE])} if found else {}
        views = [trigger_view_of(item, targets.get(item.function_ref)) for item in found]
        return [view for view in views if active in (None, view.active)][:limit]

    def replace(self, namespace: str, name: str, body: Any, if_match: str | None = None) -> TriggerView:
        return self._change(self._store.triggers.get(namespace, name), body, Mode.REPLACE, if_match)

    def merge(self, namespace: str, name: str, body: Any, if_match: str | None = None) -> TriggerView:
        return merge_until_written(if_match, lambda: self._change(self._store.triggers.get(namespace, name), body, Mode.MERGE, if_match))

    def delete(self, namespace: str, name: str, if_match: str | None = None) -> TriggerView:
        """Removes the row immediately, because triggers have nothing to stop."""
        trigger = self._store.triggers.get(namespace, name)
        check_match(if_match, etag_of(trigger.id, trigger.generation))
        self._store.triggers.remove(trigger.id)
        self._parts.wake("routes", "instances", "cron", "events")
        return view_trigger(self._store, trigger)

    def fire(self, namespace: str, name: str, event: Any = None, request_id: str | None = None) -> Run:
        """Queues one call as the trigger would make it, even if it is disabled. Uses the trigger's own event if `event` is None."""
        trigger = self._store.triggers.get(namespace, name)
        target = self._store.workloads.find_callable(namespace, trigger.function_ref)
        if target is None:
            raise NotFound("function", trigger.function_ref)
        if target.deleted_at is not None:
            raise SlessError(Code.CONFLICT, f'{target.kind} "{target.name}" is being deleted')
        refuse_suspended(target)
        text = run_event_of(trigger.spec.get("event_json") or "") if event is None else json.dumps(event, ensure_ascii=False)
        check_event_size("event", text)
        run = fired_run(trigger, target, text, clock.now())
        if request_id:
            run = replace(run, request_id=request_id)
        self._store.runs.insert(run)
        self._parts.wake("runs")
        return run

    def _change(self, trigger: Trigger, body: Any, mode: Mode, if_match: str | None) -> TriggerView:
        parsed = parse_trigger(body, trigger, mode)
        _check_broker(trigger.namespace, parsed, self._parts.settings)
        matched = check_match(if_match, etag_of(trigger.id, trigger.generation))
        secrets, key = _with_key(parsed)
        changed = self._store.triggers.update(
            trigger.id,
            function_ref=parsed.function_ref,
            enabled=parsed.enabled,
            spec=parsed.spec,
            secrets=secrets,
            expected_generation=trigger.generation if matched or mode is Mode.MERGE else None,
        )
        self._parts.wake("routes", "instances", "cron", "events")
        return view_trigger(self._store, changed, key)


def _check_broker(namespace: str, parsed: ParsedTrigger, settings: Settings) -> None:
    """Raises Invalid for a foreign queue on the operator's broker, and for a broker at an address that is not allowed. Host names are
    resolved and checked on each connection."""
    if parsed.type is not TriggerType.EVENT:
        return
    own = parsed.secrets.get(AMQP_URL)
    if not own:
        if refusal := refusal_of(namespace, parsed.spec["queue"], settings.event_queues_allowed):
            raise Invalid(Detail(field="queue", message=refusal))
        return
    url = parse_broker_url(own)
    literal = find_literal(url.host)
    if literal is not None and not may_reach(literal, url.port, parse_allowed(settings.outbound_allow)):
        message = f"expected a public address, or one that the operator allowed (SLESS_OUTBOUND_ALLOW), found {url.host} port {url.port}"
        raise Invalid(Detail(field=AMQP_URL, message=message))


def _with_key(parsed: ParsedTrigger) -> tuple[dict[str, str], str | None]:
    if not parsed.needs_key:
        return parsed.secrets, None
    key, digest = new_key()
    return parsed.secrets | {KEY_HASH: digest}, key
