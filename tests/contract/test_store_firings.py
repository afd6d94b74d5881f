"""Firings of cron triggers: one claim per trigger and instant, however many servers try."""

from datetime import timedelta

import pytest

from sless import clock
from sless.domain.cron import Due, firing_id_of
from sless.domain.model import CallStatus, CallTrigger, Kind, TriggerType
from tests.builders import AT, NAMESPACE, make_endpoint, make_run
from tests.contract.store_steps import at_once, build, claim_run

SPEC = {
    "schedule": "* * * * *", "timezone": "UTC", "event_json": '{"n": 1}', "pre_warm_seconds": 300, "overlap": "allow",
    "misfire_grace_seconds": 60,
}  # fmt: skip


@pytest.fixture
def ready(store, workload):
    """The function `hello` with an active version."""
    build(store, workload)
    return store.workloads.get_by_id(workload.id)


@pytest.fixture
def insert(store):
    def insert_one(name: str = "t", function_ref: str = "hello", enabled: bool = True, **spec):
        return store.triggers.insert(
            NAMESPACE, name=name, type=TriggerType.CRON, function_ref=function_ref, enabled=enabled, spec=SPEC | spec
        )

    return insert_one


def due_of(trigger, after_sec: int = 60, **changes) -> Due:
    due_at = trigger.created_at + timedelta(seconds=after_sec)
    return Due(**{"trigger_id": trigger.id, "generation": trigger.generation, "due_at": due_at} | changes)


def claim_one(store, due):
    return store.firings.claim([due])[0].run


def test_a_claim_inserts_a_queued_run_and_its_invocation(store, ready, insert):
    trigger = insert()
    run = claim_one(store, due_of(trigger))
    assert store.runs.get(run.id) == run
    assert (run.status, run.trigger, run.event, run.workload_id) == (CallStatus.QUEUED, CallTrigger.CRON, '{"n": 1}', ready.id)
    assert (run.trigger_id, run.due_at, run.max_attempts) == (trigger.id, due_of(trigger).due_at, 1)
    call = store.history.find_invocation(ready.id, run.id)
    assert (call.status, call.trigger, call.kind) == (CallStatus.QUEUED, CallTrigger.CRON, Kind.FUNCTION)
    seen = store.triggers.find_by_id(trigger.id)
    assert (seen.last_schedule_time, seen.last_status) == (due_of(trigger).due_at, "queued")


def test_an_event_that_is_not_json_becomes_the_body(store, ready, insert):
    """Otherwise an instance would refuse it as bad JSON."""
    assert claim_one(store, due_of(insert(event_json="good morning"))).event == '{"body": "good morning"}'


def test_many_servers_claim_an_instant_once(store, make_store, ready, insert):
    trigger = insert()
    others = [make_store() for _ in range(4)]
    found = at_once([lambda one=one: claim_one(one, due_of(trigger)) for one in others])
    assert any(found)
    assert claim_one(store, due_of(trigger)) is None
    calls = store.history.list_invocations(ready.id)
    assert [call.id for call in calls] == [firing_id_of(trigger.id, due_of(trigger).due_at)]
    assert len(store.runs.list_due(clock.now(), 100)) == 1


def test_an_instant_before_the_last_one_is_not_claimed(store, ready, insert):
    trigger = insert()
    claim_one(store, due_of(trigger, 120))
    assert claim_one(store, due_of(trigger, 60)) is None
    assert claim_one(store, due_of(trigger, 180)) is not None


@pytest.mark.parametrize("how", ["changed", "disabled", "removed", "elsewhere"])
def test_a_trigger_changed_since_it_was_read_is_not_claimed(store, ready, insert, how):
    trigger = insert(function_ref="nothing" if how == "elsewhere" else "hello")
    values = {"function_ref": trigger.function_ref, "enabled": how != "disabled", "spec": trigger.spec, "secrets": {}}
    if how in ("changed", "disabled"):
        store.triggers.update(trigger.id, **values)
    if how == "removed":
        store.triggers.remove(trigger.id)
    assert claim_one(store, due_of(trigger)) is None
    assert store.history.list_invocations(ready.id) == []


def test_a_target_created_after_the_instant_is_not_fired(store, ready, insert):
    trigger = insert()
    assert claim_one(store, due_of(trigger, due_at=ready.created_at - timedelta(seconds=1))) is None


def test_a_target_being_deleted_is_not_fired(store, ready, insert):
    trigger = insert()
    store.workloads.mark_deleted(ready.id)
    assert claim_one(store, due_of(trigger)) is None


def test_a_firing_without_a_ready_version_is_skipped(store, workload, insert):
    run = claim_one(store, due_of(insert()))
    assert run.status is CallStatus.SKIPPED and 'function "hello" had no ready version' in run.message
    call = store.history.find_invocation(workload.id, run.id)
    assert call.status is CallStatus.SKIPPED and call.error == run.message and call.finished_at is not None
    assert store.runs.list_due(clock.now(), 100) == []


@pytest.mark.parametrize(("overlap", "status"), [("forbid", CallStatus.SKIPPED), ("allow", CallStatus.QUEUED)])
def test_overlap(store, ready, insert, overlap, status):
    trigger = insert(overlap=overlap)
    first = claim_one(store, due_of(trigger, 60))
    claim_run(store, first.id, "holder")
    assert claim_one(store, due_of(trigger, 120)).status is status
    store.runs.finish(first.id, status=CallStatus.SUCCEEDED)
    assert claim_one(store, due_of(trigger, 180)).status is CallStatus.QUEUED


def test_runs_of_other_triggers_do_not_overlap(store, ready, insert):
    one, other = insert("one", overlap="forbid"), insert("other", overlap="forbid")
    assert claim_one(store, due_of(one)).status is CallStatus.QUEUED
    assert claim_one(store, due_of(other)).status is CallStatus.QUEUED


def test_missed_and_fired_in_one_claim(store, ready, insert):
    trigger = insert()
    missed = due_of(trigger, 60, missed="missed: because", count=3)
    found = store.firings.claim([due_of(trigger, 120), missed])
    assert [item.run.status for item in found] == [CallStatus.MISSED, CallStatus.QUEUED]
    assert store.triggers.find_by_id(trigger.id).last_schedule_time == due_of(trigger, 120).due_at
    assert {call.status for call in store.history.list_invocations(ready.id)} == {CallStatus.MISSED, CallStatus.QUEUED}


def test_the_newest_firings_end_is_the_triggers_last_status(store, ready, insert):
    trigger = insert()
    first, second = (claim_one(store, due_of(trigger, at)) for at in (60, 120))
    store.runs.finish(second.id, status=CallStatus.SUCCEEDED)
    store.runs.finish(first.id, status=CallStatus.FAILED)  # older: it does not change the last status
    assert store.triggers.find_by_id(trigger.id).last_status == "succeeded"
    by_hand = make_run(workload_id=ready.id, namespace=NAMESPACE, trigger_id=trigger.id, trigger=CallTrigger.CRON)
    store.runs.insert(by_hand)
    store.runs.finish(by_hand.id, status=CallStatus.TIMEOUT)
    assert store.triggers.find_by_id(trigger.id).last_status == "timeout"


def test_many_triggers_in_one_claim(store, ready, insert):
    triggers = [insert(f"t{n}") for n in range(30)]
    found = store.firings.claim([due_of(trigger, due_at=AT + timedelta(days=3650)) for trigger in triggers])
    assert len({item.run.id for item in found}) == 30
    assert len(store.history.list_invocations(ready.id)) == 30
    assert {item.last_schedule_time for item in store.triggers.list_all()} == {AT + timedelta(days=3650)}


def test_marks_and_revision_follow_user_changes(store, ready, insert):
    before = store.firings.revision()
    on, off = insert("on"), insert("off", enabled=False)
    store.triggers.insert(NAMESPACE, name="front", type=TriggerType.HTTP, function_ref="hello")
    assert store.firings.marks() == {on.id: 1}
    assert [item.id for item in store.firings.list_enabled([on.id, off.id])] == [on.id]
    middle = store.firings.revision()
    claim_one(store, due_of(on))
    store.firings.set_warm([on.id], True)
    assert before < middle == store.firings.revision()
    store.triggers.remove(on.id)
    assert store.firings.revision() > middle and store.firings.marks() == {}


@pytest.mark.parametrize(
    ("change", "counts_anew"),
    [
        ({"spec": {"schedule": "@daily"}}, True),
        ({"spec": {"timezone": "Europe/Berlin"}}, True),
        ({"spec": {"event_json": "[]"}}, False),
        ({"function_ref": "other"}, True),
        ({"enabled": False}, True),
    ],
)
def test_changes_that_restart_the_schedule(store, insert, change, counts_anew):
    trigger = insert()
    assert trigger.scheduled_since == trigger.created_at
    values = {"function_ref": "hello", "enabled": True, "secrets": {}} | change | {"spec": SPEC | change.get("spec", {})}
    changed = store.triggers.update(trigger.id, **values)
    assert (changed.scheduled_since > trigger.scheduled_since) is counts_anew
    assert store.triggers.find_by_id(trigger.id) == changed


def test_a_warm_trigger_needs_instances_until_it_is_disabled(store, ready, insert):
    trigger = insert()
    store.firings.set_warm([trigger.id], True)
    assert [item.id for item in store.triggers.list_affecting_instances()] == [trigger.id]
    off = store.triggers.update(trigger.id, function_ref="hello", enabled=False, spec=SPEC, secrets={})
    assert not off.warm and store.triggers.list_affecting_instances() == []
    store.firings.set_warm([trigger.id], True)  # by a scheduler that has not yet seen the change
    assert not store.triggers.find_by_id(trigger.id).warm


def test_routes_use_a_warm_instance_when_there_is_one(store, ready, insert):
    trigger = insert()

    def route():
        return store.routes.find_snapshot(-1).routes[0]

    assert not route().wants_instances
    store.firings.set_warm([trigger.id], True)
    assert not route().wants_instances  # until the instance exists, a call is a one-off run
    store.routes.set_endpoints(ready.id, [make_endpoint(id="e1", workload_id=ready.id)])
    assert route().wants_instances
    store.routes.set_endpoints(ready.id, [make_endpoint(id="e1", workload_id=ready.id, draining=True)])
    assert not route().wants_instances
    store.routes.set_endpoints(ready.id, [make_endpoint(id="e1", workload_id=ready.id)])
    store.firings.set_warm([trigger.id], False)
    assert not route().wants_instances


def test_an_empty_claim(store):
    assert store.firings.claim([]) == []
