"""The reconcilers' rules as tables: (desired, observed) → actions."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sless.domain.model import (
    Endpoint,
    Kind,
    Observed,
    Trigger,
    TriggerType,
    Version,
    VersionState,
    Workload,
    WorkloadSpec,
)
from sless.domain.ports import Deployment, ObservedDeployment
from sless.domain.routing import revision_of
from sless.reconcile import decide
from sless.reconcile.decide import Apply, BuildTurns, EndBuild, Forget, Remove, StartBuild

NOW = datetime(2026, 1, 31, 9, 26, 53, tzinfo=UTC)


def workload(name="hello", *, kind=Kind.FUNCTION, deleted=False, active=1, generation=3, **spec) -> Workload:
    return Workload(
        id=f"id-{name}", namespace="sless-0", kind=kind, name=name,
        spec=WorkloadSpec(runtime="python3.11", entrypoint="handler.handle", **spec),
        generation=generation, active_version=active, observed=Observed(),
        created_at=NOW, updated_at=NOW, deleted_at=NOW if deleted else None,
    )  # fmt: skip


def version(of="hello", number=1, state=VersionState.READY, attempts=0, auto_activate=True) -> Version:
    return Version(
        id=f"{of}-v{number}", workload_id=f"id-{of}", number=number, sha256="0" * 64, code_hash=None, runtime="python3.11",
        entrypoint="handler.handle", state=state, message="", code_key=f"k{number}", artifact="", size_bytes=10, attempts=attempts,
        auto_activate=auto_activate, build_env={}, created_at=NOW, started_at=None, ended_at=None,
    )  # fmt: skip


def trigger(type_=TriggerType.HTTP, enabled=True) -> Trigger:
    return Trigger(
        id="t", namespace="sless-0", name="t", type=type_, function_ref="hello", enabled=enabled, spec={}, secrets={}, generation=1,
        created_at=NOW, updated_at=NOW,
    )  # fmt: skip


def endpoint(number=1, draining=False) -> Endpoint:
    return Endpoint(id="e", workload_id="id-hello", version=number, address="unix:/x", draining=draining, created_at=NOW)


@pytest.mark.parametrize(
    ("item", "triggers", "warm"),
    [
        (workload(), [], None),
        (workload(), [trigger()], False),
        (workload(), [trigger(enabled=False)], None),
        (workload(), [trigger(TriggerType.EVENT)], False),
        (workload(), [trigger(TriggerType.CRON)], None),
        (workload(), [replace(trigger(TriggerType.CRON), warm=True)], True),
        (workload(), [replace(trigger(TriggerType.CRON, enabled=False), warm=True)], None),
        (workload(deleted=True), [trigger()], None),
        (workload(kind=Kind.SERVICE, replicas=3), [], False),
        (workload(kind=Kind.SERVICE, replicas=0), [], None),
        (workload(kind=Kind.SERVICE), [trigger(enabled=False)], False),
        (workload(kind=Kind.SERVICE), [replace(trigger(TriggerType.CRON), warm=True)], False),
        (workload(kind=Kind.JOB), [], None),
    ],
)
def test_which_workloads_may_have_instances(item, triggers, warm):
    found = decide.scale_target_of(item, version(), triggers)
    assert (found.warm if found else None) == warm


def test_no_instances_without_a_version():
    assert decide.scale_target_of(workload(kind=Kind.SERVICE), None, []) is None
    assert decide.scale_target_of(workload(kind=Kind.SERVICE), version(state=VersionState.QUEUED), []) is None


def seen(generation=3, **more) -> ObservedDeployment:
    return ObservedDeployment(workload_id="id-hello", generation=generation, endpoints=(endpoint(),), **more)


DESIRED = Deployment(revision=revision_of(workload(), version()), replicas=1, generation=3)


@pytest.mark.parametrize(
    ("workloads", "desired", "observed", "busy", "expected"),
    [
        ([workload()], {"id-hello": DESIRED}, {}, [], [Apply(deployment=DESIRED)]),
        ([workload()], {"id-hello": DESIRED}, {"id-hello": seen(2)}, [], [Apply(deployment=DESIRED)]),
        ([workload()], {"id-hello": DESIRED}, {"id-hello": seen(3)}, [], []),
        ([workload()], {}, {"id-hello": seen()}, [], [Remove(workload_id="id-hello")]),
        ([workload()], {}, {}, [], []),
        ([workload(deleted=True)], {}, {"id-hello": seen()}, [], [Remove(workload_id="id-hello")]),
        ([workload(deleted=True)], {}, {}, [], [Forget(workload_id="id-hello")]),
        ([workload(deleted=True)], {}, {}, ["id-hello"], []),
        ([], {}, {"id-hello": seen()}, [], [Remove(workload_id="id-hello")]),
    ],
)
def test_decide_instances(workloads, desired, observed, busy, expected):
    assert (
        decide.decide_instances({item.id: item for item in workloads}, desired, observed, applied=dict.fromkeys(desired, 1), busy=busy)
        == expected
    )


def test_desired_state_is_applied_once_even_if_up_to_date():
    """Instances may have been edited while no server was running."""
    workloads, desired, observed = {"id-hello": workload()}, {"id-hello": DESIRED}, {"id-hello": seen(3)}
    assert decide.decide_instances(workloads, desired, observed, applied={}) == [Apply(deployment=DESIRED)]
    assert decide.decide_instances(workloads, desired, observed, applied={"id-hello": 1}) == []
    assert decide.decide_instances(workloads, desired, observed, applied={"id-hello": 2}) == [Apply(deployment=DESIRED)]


def test_observed_is_ready_only_for_this_generation():
    assert decide.observed_of(workload(), DESIRED, seen(2, message="crashed")) == Observed(
        generation=2, version=None, ready_instances=1, message="crashed"
    )
    assert decide.observed_of(workload(), DESIRED, seen(3)) == Observed(generation=3, version=1, ready_instances=1)
    assert decide.observed_of(workload(), DESIRED, None) == Observed()
    assert decide.observed_of(workload(), None, None) == Observed()


PROVEN = Observed(generation=3, version=1, ready_instances=1)
NONE = ObservedDeployment(workload_id="id-hello", generation=3, endpoints=())


@pytest.mark.parametrize(
    ("before", "desired", "observed", "expected"),
    [
        # Idle: it stays up to date, also while a restarted server has no group for it yet.
        (PROVEN, 0, NONE, replace(PROVEN, ready_instances=0)),
        (PROVEN, 0, None, replace(PROVEN, ready_instances=0)),
        (PROVEN, 1, NONE, replace(PROVEN, ready_instances=0)),
        # A new leader does not know yet that the generation was reached.
        (PROVEN, 4, seen(0), PROVEN),
        # A start from zero fails, and the next one works.
        (PROVEN, 1, replace(NONE, failing=True, message="exit 3"), Observed(generation=2, failing=True, message="exit 3")),
        (Observed(generation=2, failing=True, message="exit 3"), 1, seen(3), PROVEN),
        # Some of several fail.
        (PROVEN, 4, seen(3, failing=True, message="quota"), replace(PROVEN, failing=True, message="quota")),
        # Until one has worked, zero instances are not enough.
        (Observed(), 1, replace(NONE, generation=2), Observed(generation=2)),
        (replace(PROVEN, generation=2), 1, seen(2), Observed(generation=2, ready_instances=1)),
    ],
)
def test_a_proven_workload_stays_up_to_date_until_a_start_fails(before, desired, observed, expected):
    item = replace(workload(), observed=before)
    assert decide.observed_of(item, replace(DESIRED, replicas=desired), observed) == expected


def test_a_note_gives_the_reason_for_too_few_instances():
    item = replace(workload(), observed=PROVEN)
    assert decide.observed_of(item, DESIRED, seen(3), "no memory") == replace(PROVEN, message="no memory", wanted=3)
    none = Observed(generation=2, failing=True, message="no memory", wanted=3)
    assert decide.observed_of(item, DESIRED, NONE, "no memory") == none


QUEUED, BUILDING = VersionState.QUEUED, VersionState.BUILDING


@pytest.mark.parametrize(
    ("versions", "started", "expected"),
    [
        ([version(state=QUEUED)], [], ["start hello-v1"]),
        ([version(state=BUILDING)], ["hello-v1"], []),
        ([version(state=BUILDING, attempts=1)], [], ["start hello-v1"]),
        ([version(state=BUILDING, attempts=3)], [], ["failed hello-v1"]),
        ([version(state=BUILDING), version(number=2, state=QUEUED)], ["hello-v1"], ["cancelled hello-v1", "start hello-v2"]),
        ([version("a", state=QUEUED), version("b", state=QUEUED), version("c", state=QUEUED)], [], ["start a-v1", "start b-v1"]),
        ([version("a", state=BUILDING), version("b", state=BUILDING), version("c", state=QUEUED)], ["a-v1", "b-v1"], []),
        ([version(state=QUEUED, auto_activate=False), version(number=2, state=QUEUED)], [], ["start hello-v1", "start hello-v2"]),
        ([version("gone", state=QUEUED)], [], ["cancelled gone-v1"]),
        ([version("dead", state=BUILDING)], ["dead-v1"], ["cancelled dead-v1"]),
    ],
)
def test_decide_builds(versions, started, expected):
    workloads = {item.id: item for item in (workload(), *map(workload, "abc"), workload("dead", deleted=True))}
    # Slots for two of each tenant: these rules are not about turns.
    actions = decide.decide_builds(versions, workloads, frozenset(started), BuildTurns(at_once=3, most_of=lambda _: 2))
    found = [f"{'start' if isinstance(action, StartBuild) else action.state} {action.version.id}" for action in actions]
    assert found == expected
    assert all(action.message for action in actions if isinstance(action, EndBuild))


def namespaced(*owners: str) -> tuple[list, dict]:
    """Queued versions, oldest first, of workloads in these namespaces."""
    items = [replace(workload(f"w{number}"), namespace=owner) for number, owner in enumerate(owners)]
    return [version(f"w{number}", state=QUEUED) for number in range(len(owners))], {item.id: item for item in items}


def started_by(turns: BuildTurns, *owners: str) -> list[str]:
    versions, workloads = namespaced(*owners)
    return [workloads[action.version.workload_id].namespace for action in decide.decide_builds(versions, workloads, frozenset(), turns)]


def test_a_tenant_with_many_builds_leaves_slots_to_others():
    turns = BuildTurns(at_once=3, most_of=lambda _: 5)
    assert started_by(turns, *["greedy"] * 12) == ["greedy"] * 2
    assert started_by(turns, *["greedy"] * 12, "late") == ["greedy", "late"]


def test_tenants_take_turns_whatever_the_age_of_their_builds():
    """Without the numbers of the turns, the oldest queue would get every free slot."""
    turns = BuildTurns(at_once=1, most_of=lambda _: 5, served={"a": 1, "b": 2})
    assert started_by(turns, *"aabbc") == ["c"]
    assert started_by(turns, *"aabb") == ["a"]
    assert started_by(BuildTurns(at_once=1, most_of=lambda _: 5, served={"a": 3, "b": 2}), *"aabb") == ["b"]


def test_concurrent_builds_of_a_tenant_are_limited():
    turns = BuildTurns(at_once=9, most_of=lambda namespace: {"small": 1}.get(namespace, 3))
    assert Counter(started_by(turns, *["small", "big"] * 9)) == {"small": 1, "big": 3}


def test_trial_imports_have_slots_of_their_own():
    versions, workloads = namespaced(*"aaaabb")
    going = [replace(item, state=BUILDING) for item in versions[:3]]
    importing = frozenset(item.id for item in going)

    def started(at_once: int = 1, **more) -> list[str]:
        turns = BuildTurns(at_once=at_once, most_of=lambda _: 1, **more)
        actions = decide.decide_builds([*going, *versions[3:]], workloads, importing, turns)
        return [action.version.id for action in actions]

    assert started() == []
    assert started(importing=importing) == ["w3-v1"]
    assert started(importing=importing, imports_at_once=3) == []
    # Half of the slots are left to other tenants.
    assert started(importing=importing, imports_at_once=6) == ["w4-v1"]


def test_a_job_of_a_function_overrides_only_given_fields():
    target = workload(memory_mb=256, timeout_sec=9, env_vars={"A": "1", "B": "1"})
    job = workload(
        "job", kind=Kind.JOB, memory_mb=64, timeout_sec=3, env_vars={"B": "2"}, function_ref="hello", set_fields=("timeout_sec",)
    )
    revision = decide.job_revision_of(job, target, version())
    assert (revision.memory_mb, revision.timeout_sec, revision.env, revision.kind) == (256, 3, {"A": "1", "B": "2"}, Kind.JOB)
    assert (revision.workload_id, revision.code_key) == ("id-job", "k1")


def test_delay_grows_to_five_minutes():
    from sless.reconcile.failures import Backoff

    backoff = Backoff()
    delay_sec = backoff.failed("a", NOW)
    assert 1.6 <= delay_sec <= 2.4
    assert backoff.rests("a", NOW + timedelta(seconds=1)) and not backoff.rests("b", NOW)
    assert not backoff.rests("a", NOW + timedelta(seconds=2.5))
    backoff.succeeded("a")
    assert not backoff.rests("a", NOW)
