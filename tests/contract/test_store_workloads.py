"""Tenants and workloads: names, generations, deleting."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from sless.domain.model import CallStatus, Kind, Observed, TriggerType
from sless.errors import Code, NotFound, SlessError
from tests.builders import AT, NAMESPACE, make_call_stats, make_endpoint, make_invocation, make_log_line, make_run, make_workload_spec
from tests.contract.store_steps import at_once, build

CALLABLE = (Kind.FUNCTION, Kind.SERVICE)


def code_of(call) -> Code:
    with pytest.raises(SlessError) as caught:
        call()
    return caught.value.code


class TestTenants:
    def test_ensure_is_idempotent_and_keeps_the_first_subject(self, store):
        first = store.tenants.ensure("sless-1", "owner")
        assert store.tenants.ensure("sless-1", "operator") == first
        assert store.tenants.find("sless-1") == first
        assert first.sub == "owner" and first.limits == {}

    def test_unknown(self, store):
        assert store.tenants.find("sless-unknown") is None
        store.tenants.delete("sless-unknown")

    def test_counts_exclude_workloads_being_deleted(self, store, workload):
        store.workloads.insert(NAMESPACE, Kind.SERVICE, "web", make_workload_spec())
        store.workloads.insert(NAMESPACE, Kind.JOB, "hello", make_workload_spec())
        store.triggers.insert(NAMESPACE, name="t", type=TriggerType.HTTP, function_ref="hello")
        assert store.tenants.counts(NAMESPACE) == {"functions": 1, "services": 1, "jobs": 1, "triggers": 1}
        store.workloads.mark_deleted(workload.id)
        assert store.tenants.counts(NAMESPACE)["functions"] == 0

    def test_only_an_empty_tenant_can_be_deleted(self, store, workload):
        assert code_of(lambda: store.tenants.delete(NAMESPACE)) is Code.CONFLICT
        store.workloads.mark_deleted(workload.id)
        assert code_of(lambda: store.tenants.delete(NAMESPACE)) is Code.CONFLICT
        store.workloads.remove(workload.id)
        store.tenants.delete(NAMESPACE)
        assert store.tenants.find(NAMESPACE) is None


class TestNames:
    def test_a_workload_round_trips(self, store):
        spec = make_workload_spec(
            memory_mb=256, timeout_sec=5, env_vars={"A": "ä\0\ud800"}, build_env={"B": "1"}, secret_env={"S": "geheim"}, concurrency=3,
            event_format="aws-http-v2", description='"\n\0', display_name="✓", replicas=2, run_id=7, event_json='{"a": 1}',
            function_ref="other", set_fields=("memory_mb",),
        )  # fmt: skip
        made = store.workloads.insert(NAMESPACE, Kind.JOB, "work", spec)
        assert store.workloads.get(NAMESPACE, Kind.JOB, "work") == made
        assert store.workloads.get_by_id(made.id) == made
        assert made.spec == spec
        assert (made.generation, made.active_version, made.deleted_at, made.observed) == (1, None, None, Observed())
        assert made.created_at.tzinfo is UTC

    def test_functions_and_services_share_names_but_jobs_do_not(self, store, workload):
        for kind in CALLABLE:
            with pytest.raises(SlessError) as caught:
                store.workloads.insert(NAMESPACE, kind, "hello", make_workload_spec())
            assert (caught.value.code, caught.value.message) == (Code.EXISTS, 'function "hello" already exists')
        job = store.workloads.insert(NAMESPACE, Kind.JOB, "hello", make_workload_spec())
        assert store.workloads.get(NAMESPACE, Kind.JOB, "hello") == job
        assert store.workloads.find_callable(NAMESPACE, "hello") == workload

    def test_a_workload_is_only_found_by_its_kind(self, store, workload):
        assert store.workloads.find(NAMESPACE, Kind.SERVICE, "hello") is None
        with pytest.raises(NotFound, match='service "hello" not found'):
            store.workloads.get(NAMESPACE, Kind.SERVICE, "hello")
        with pytest.raises(NotFound):
            store.workloads.get_by_id("nobody")
        assert store.workloads.find_by_id("nobody") is None

    def test_names_are_unique_per_namespace(self, store, workload):
        store.tenants.ensure("sless-other", "other")
        assert store.workloads.find_callable("sless-other", "hello") is None
        store.workloads.insert("sless-other", Kind.FUNCTION, "hello", make_workload_spec())

    def test_an_unknown_namespace(self, store):
        assert code_of(lambda: store.workloads.insert("nowhere", Kind.FUNCTION, "hello", make_workload_spec())) is Code.NOT_FOUND

    def test_concurrent_inserts_of_one_name_succeed_once(self, store):
        def insert() -> Code | None:
            try:
                store.workloads.insert(NAMESPACE, Kind.FUNCTION, "raced", make_workload_spec())
            except SlessError as error:
                return error.code
            return None

        results = at_once([insert] * 8)
        assert results.count(None) == 1
        assert results.count(Code.EXISTS) == 7


class TestLists:
    @pytest.fixture(autouse=True)
    def _names(self, store):
        for name in ("b", "a-b", "ab", "a1", "c"):
            store.workloads.insert(NAMESPACE, Kind.SERVICE if name == "ab" else Kind.FUNCTION, name, make_workload_spec())
        store.workloads.insert(NAMESPACE, Kind.JOB, "job", make_workload_spec())

    def test_lists_are_sorted_by_name_byte_by_byte(self, store):
        assert [item.name for item in store.workloads.list_in(NAMESPACE, CALLABLE)] == ["a-b", "a1", "ab", "b", "c"]
        assert [item.name for item in store.workloads.list_in(NAMESPACE, (Kind.SERVICE,))] == ["ab"]

    def test_pages(self, store):
        first = store.workloads.list_in(NAMESPACE, (Kind.FUNCTION,), limit=2)
        assert [item.name for item in first] == ["a-b", "a1"]
        assert [item.name for item in store.workloads.list_in(NAMESPACE, (Kind.FUNCTION,), limit=2, after_name="a1")] == ["b", "c"]

    def test_all_tenants(self, store):
        store.tenants.ensure("sless-other", "other")
        store.workloads.insert("sless-other", Kind.FUNCTION, "x", make_workload_spec())
        assert {item.name for item in store.workloads.list_all((Kind.FUNCTION,))} == {"a-b", "a1", "b", "c", "x"}
        assert len(store.workloads.list_all(tuple(Kind))) == 7


class TestSpec:
    def test_an_update_raises_the_generation(self, store, workload):
        spec = make_workload_spec(memory_mb=512)
        before = store.routes.revision()
        changed = store.workloads.update_spec(workload.id, spec)
        assert (changed.generation, changed.spec) == (2, spec)
        assert store.workloads.get_by_id(workload.id) == changed
        assert changed.updated_at > workload.updated_at
        assert store.routes.revision() > before

    def test_an_unexpected_generation_is_refused(self, store, workload):
        store.workloads.update_spec(workload.id, make_workload_spec(memory_mb=512), expected_generation=1)
        with pytest.raises(SlessError, match="expected generation 1, found 2") as caught:
            store.workloads.update_spec(workload.id, make_workload_spec(memory_mb=1024), expected_generation=1)
        assert caught.value.code is Code.PRECONDITION_FAILED
        assert store.workloads.get_by_id(workload.id).spec.memory_mb == 512

    def test_concurrent_updates_of_one_generation_succeed_once(self, store, workload):
        def change(memory_mb: int) -> Code | None:
            try:
                store.workloads.update_spec(workload.id, make_workload_spec(memory_mb=memory_mb), expected_generation=1)
            except SlessError as error:
                return error.code
            return None

        results = at_once([lambda size=size: change(size) for size in range(128, 136)])
        assert results.count(None) == 1 and results.count(Code.PRECONDITION_FAILED) == 7

    def test_a_deleted_workload_cannot_be_updated(self, store, workload):
        store.workloads.mark_deleted(workload.id)
        assert code_of(lambda: store.workloads.update_spec(workload.id, make_workload_spec())) is Code.CONFLICT
        store.workloads.remove(workload.id)
        assert code_of(lambda: store.workloads.update_spec(workload.id, make_workload_spec())) is Code.NOT_FOUND


class TestObserved:
    SEEN = Observed(
        generation=1, version=2, ready_instances=3, message="1 of 4 instances is missing", failing=True, wanted=4, observed_at=AT
    )

    def test_observed_state_is_stored(self, store, workload):
        before = store.routes.revision()
        store.workloads.set_observed(workload.id, self.SEEN)
        found = store.workloads.get_by_id(workload.id)
        assert found.observed == self.SEEN
        assert (found.generation, found.updated_at) == (workload.generation, workload.updated_at)
        assert store.routes.revision() > before

    def test_a_new_time_alone_is_not_written(self, store, workload):
        store.workloads.set_observed(workload.id, self.SEEN)
        before = store.routes.revision()
        store.workloads.set_observed(workload.id, replace(self.SEEN, observed_at=AT + timedelta(seconds=5)))
        assert store.workloads.get_by_id(workload.id).observed.observed_at == AT
        assert store.routes.revision() == before

    def test_a_missing_workload_is_ignored(self, store):
        store.workloads.set_observed("nobody", self.SEEN)

    def test_times_in_other_zones_are_returned_as_utc(self, store, workload):
        there = datetime(2026, 7, 1, 12, 0, 0, 123_456, tzinfo=timezone(timedelta(hours=5, minutes=45)))
        store.workloads.set_observed(workload.id, replace(self.SEEN, observed_at=there))
        found = store.workloads.get_by_id(workload.id).observed.observed_at
        assert found == there and found.tzinfo is UTC

    def test_a_time_without_a_zone_is_refused(self, store, workload):
        with pytest.raises(SlessError) as caught:
            store.workloads.set_observed(workload.id, replace(self.SEEN, observed_at=datetime(2026, 1, 1)))  # noqa: DTZ001
        assert caught.value.code is Code.INTERNAL
        assert "without a zone" in str(caught.value.__cause__)


class TestDeleting:
    def test_marking_again_keeps_the_first_time(self, store, workload):
        store.workloads.mark_deleted(workload.id)
        first = store.workloads.get_by_id(workload.id).deleted_at
        revision = store.routes.revision()
        store.workloads.mark_deleted(workload.id)
        assert first is not None
        assert store.workloads.get_by_id(workload.id).deleted_at == first
        assert store.routes.revision() == revision

    def test_a_marked_workload_stays_visible(self, store, workload):
        store.workloads.mark_deleted(workload.id)
        assert store.workloads.get(NAMESPACE, Kind.FUNCTION, "hello").deleted_at is not None
        assert [item.name for item in store.workloads.list_in(NAMESPACE, CALLABLE)] == ["hello"]

    def test_a_new_workload_can_take_the_name_and_hides_the_old_one(self, store, workload):
        for _ in range(2):
            last = store.workloads.find_callable(NAMESPACE, "hello")
            store.workloads.mark_deleted(last.id)
            newer = store.workloads.insert(NAMESPACE, Kind.SERVICE, "hello", make_workload_spec())
            assert store.workloads.find_callable(NAMESPACE, "hello") == newer
            assert store.workloads.list_in(NAMESPACE, CALLABLE) == [newer]
        assert len(store.workloads.list_all(CALLABLE)) == 3
        assert [route.workload_id for route in store.routes.find_snapshot(0).routes] == [newer.id]
        store.workloads.mark_deleted(newer.id)
        assert [item.id for item in store.workloads.list_in(NAMESPACE, CALLABLE)] == [newer.id]

    def test_remove_keeps_history_and_statistics(self, store, workload):
        version = build(store, workload)
        store.versions.add_log(version.id, ["line"])
        store.routes.set_endpoints(workload.id, [make_endpoint(workload_id=workload.id)])
        run = make_run(workload_id=workload.id)
        store.runs.insert(run)
        calls = [make_invocation(workload_id=workload.id) for _ in range(5)]
        lines = [make_log_line(workload_id=workload.id, seq=seq, invocation_id=calls[0].id) for seq in range(5)]
        other = make_invocation(workload_id="other")
        stats = make_call_stats(workload_id=workload.id)
        store.history.add_history([*calls, other], [stats], lines)

        store.workloads.remove(workload.id)

        assert store.workloads.find_by_id(workload.id) is None
        assert store.versions.list_of(workload.id) == [] and store.versions.log(version.id) == []
        assert store.routes.endpoints(workload.id) == []
        assert store.runs.find(run.id) is None and store.runs.count(CallStatus.QUEUED) == 0
        kept = {call.id: store.history.find_in(NAMESPACE, call.id) for call in calls}
        assert kept == {call.id: call for call in calls} and store.history.find_in("other", calls[0].id) is None
        assert [line.seq for line in store.history.lines_of(workload.id, calls[0].id)] == [0, 1, 2, 3, 4]
        cancelled = store.history.find_in(NAMESPACE, run.id)
        assert cancelled is not None and cancelled.status is CallStatus.CANCELLED and "deleted" in cancelled.error
        assert store.history.list_invocations("other") == [other]
        assert store.history.stats(workload.id, AT - timedelta(hours=1), AT + timedelta(hours=1)) == [stats]
        store.workloads.remove(workload.id)
