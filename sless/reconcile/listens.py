"""Desired listeners of event triggers: (triggers, functions, settings) → a listener, or why there is none. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sless.config import Settings
from sless.domain.amqp import BrokerUrl, parse_broker_url, refusal_of
from sless.domain.instance_bounds import bounds_of
from sless.domain.model import Kind, Trigger, TriggerType, Workload
from sless.domain.routing import suspension_of
from sless.domain.trigger_spec import AMQP_URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """The desired listener of one trigger. Equal values need no change. `trusted`: on the operator's broker."""

    trigger_id: str
    namespace: str
    trigger: str
    workload_id: str
    function: str
    queue: str
    url: BrokerUrl
    trusted: bool
    prefetch: int
    max_concurrency: int
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """An enabled trigger that cannot listen; `reason` becomes its message."""

    trigger_id: str
    reason: str


DesiredListener = Listen | Idle


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """Observed status of a trigger: `active` while its queue is consumed; `last_status` of the newest settled message."""

    message: str
    active: bool
    last_status: str | None


def desired_listeners_of(triggers: Iterable[Trigger], workloads: Iterable[Workload], settings: Settings) -> dict[str, DesiredListener]:
    """Desired listeners by trigger id. A disabled trigger has none."""
    targets = {(item.namespace, item.name): item for item in workloads if item.kind is not Kind.JOB and item.deleted_at is None}
    wanted = [item for item in triggers if item.type is TriggerType.EVENT and item.enabled]
    return {item.id: _desired_listener_of(item, targets.get((item.namespace, item.function_ref)), settings) for item in wanted}


def _desired_listener_of(trigger: Trigger, target: Workload | None, settings: Settings) -> DesiredListener:
    reason = _target_problem(trigger, target) or _queue_problem(trigger, settings)
    if reason or target is None:
        return Idle(trigger_id=trigger.id, reason=reason)
    own = trigger.secrets.get(AMQP_URL)
    try:
        url = parse_broker_url(own or settings.rabbitmq_url)
    except ValueError as error:
        return Idle(trigger_id=trigger.id, reason=f"{'amqp_url' if own else 'SLESS_RABBITMQ_URL'}: {error}")
    spec = trigger.spec
    return Listen(
        trigger_id=trigger.id, namespace=trigger.namespace, trigger=trigger.name, workload_id=target.id, function=target.name,
        queue=spec["queue"], url=url, trusted=not own, prefetch=spec["prefetch"], max_concurrency=spec["max_concurrency"],
        max_attempts=spec["max_attempts"],
    )  # fmt: skip


def _target_problem(trigger: Trigger, target: Workload | None) -> str:
    if target is None:
        return f'function "{trigger.function_ref}" not found'
    if target.suspended is not None:
        return f'not listening: {target.kind} "{target.name}" is {suspension_of(target.suspended)}'
    if target.active_version is None:
        return f'not listening: {target.kind} "{target.name}" has no ready version'
    if bounds_of(target.kind, target.spec).most == 0:
        return f'not listening: {target.kind} "{target.name}" is scaled to 0'
    return ""


def _queue_problem(trigger: Trigger, settings: Settings) -> str:
    if trigger.secrets.get(AMQP_URL):
        return ""
    if not settings.rabbitmq_url:
        return "no broker: the trigger has no amqp_url and this server has no SLESS_RABBITMQ_URL"
    refusal = refusal_of(trigger.namespace, trigger.spec["queue"], settings.event_queues_allowed)
    return f"queue: {refusal}" if refusal else ""


# --- changes ---


@dataclass(frozen=True, slots=True, kw_only=True)
class StartListener:
    listen: Listen


@dataclass(frozen=True, slots=True, kw_only=True)
class StopListener:
    trigger_id: str


ListenAction = StartListener | StopListener


def decide_listens(desired: Mapping[str, DesiredListener], running: Mapping[str, Listen]) -> list[ListenAction]:
    """A changed listener is stopped and a new one started; running calls of the old one end by themselves."""
    actions: list[ListenAction] = []
    for trigger_id, listen in running.items():
        if desired.get(trigger_id) != listen:
            actions.append(StopListener(trigger_id=trigger_id))
    for trigger_id, wanted in desired.items():
        if isinstance(wanted, Listen) and running.get(trigger_id) != wanted:
            actions.append(StartListener(listen=wanted))
    return actions
