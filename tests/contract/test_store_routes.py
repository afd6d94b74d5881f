"""Routes: the snapshot that proxies poll, endpoints, the revision; leases; small values."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from sless.domain.model import Kind, Observed, TriggerType, VersionState
from sless.errors import Code, NotFound
from sless.store.routes import RouteStore
from tests.builders import AT, NAMESPACE, make_endpoint, make_workload_spec
from tests.contract.store_steps import at_once, build, upload


def trigger(store, name="front", type=TriggerType.HTTP, **values):
    return store.triggers.insert(NAMESPACE, name=name, type=type, function_ref="hello", **values)


def set_of(snapshot) -> dict[str, object]:
    return {route.workload_id: route for route in snapshot.routes}


class TestSnapshot:
    def test_an_unchanged_revision_returns_no_snapshot(self, store, workload):
        revision = store.routes.revision()
        assert store.routes.find_snapshot(revision) is None
        assert store.routes.find_snapshot(revision - 1).revision == revision
        # A restored database continues from an older revision.
        assert store.routes.find_snapshot(revision + 5).revision == revision

    def test_a_route_has_everything_a_call_needs(self, store, workload):
        store.workloads.update_spec(workload.id, make_workload_spec(env_vars={"A": "1"}, secret_env={"S": "2"}, memory_mb=256))
        build(store, workload, code_key="k.zip")
        build(store, workload, VersionState.FAILED)
        trigger(store, spec={"methods": ["GET"], "auth": "key"}, secrets={"key_sha256": "ab" * 32})
        endpoints = [make_endpoint(workload_id=workload.id, address=f"unix:/{n}", created_at=AT + timedelta(seconds=n)) for n in range(3)]
        store.routes.set_endpoints(workload.id, endpoints)
        (route,) = store.routes.find_snapshot(0).routes
        assert (route.workload_id, route.namespace, route.name, route.kind) == (workload.id, NAMESPACE, "hello", Kind.FUNCTION)
        assert (route.revision.version, route.revision.code_key, route.revision.memory_mb) == (1, "k.zip", 256)
        assert route.revision.env == {"A": "1", "S": "2"}
        assert (route.http.methods, route.http.auth, route.http.key_hashes) == (("GET",), "key", ("ab" * 32,))
        assert route.endpoints == tuple(endpoints)
        assert route.wants_instances and route.blocked is None

    def test_the_reason_why_calls_are_blocked(self, store, workload):
        def blocked() -> Code:
            (route,) = store.routes.find_snapshot(0).routes
            return route.blocked[0]

        assert blocked() is Code.NOT_READY
        build(store, workload, VersionState.FAILED)
        assert blocked() is Code.BUILD_FAILED
        build(store, workload)
        trigger(store, enabled=False)
        assert blocked() is Code.DISABLED
        store.workloads.mark_deleted(workload.id)
        assert blocked() is Code.NOT_FOUND

    def test_the_reason_why_instances_fail_is_in_the_next_snapshot(self, store, workload):
        build(store, workload)
        trigger(store)
        (before,) = store.routes.find_snapshot(0).routes
        now = store.workloads.get(NAMESPACE, Kind.FUNCTION, "hello").generation
        failing = Observed(generation=0, version=None, ready_instances=0, message="no module x", failing=True, wanted=now)
        store.workloads.set_observed(workload.id, failing)
        (after,) = store.routes.find_snapshot(0).routes
        assert (before.blocked, after.blocked) == (None, (Code.NO_INSTANCES, 'function "hello" has no instances: no module x'))

    def test_no_jobs_and_no_cron_triggers(self, store, workload):
        store.workloads.insert(NAMESPACE, Kind.JOB, "job", make_workload_spec())
        build(store, workload)
        trigger(store, "cron", TriggerType.CRON)
        (route,) = store.routes.find_snapshot(0).routes
        assert route.http is None and not route.wants_instances
        trigger(store, "event", TriggerType.EVENT)
        (route,) = store.routes.find_snapshot(0).routes
        assert route.http is None and route.wants_instances

    def test_triggers_of_other_namespaces_do_not_apply(self, store, workload):
        store.tenants.ensure("sless-other", "other")
        store.triggers.insert("sless-other", name="t", type=TriggerType.HTTP, function_ref="hello")
        (route,) = store.routes.find_snapshot(0).routes
        assert route.http is None

    def test_every_change_to_routes_raises_the_revision(self, store, workload):
        def changes(step) -> bool:
            before = store.routes.revision()
            step()
            return store.routes.revision() > before

        made = []
        assert changes(lambda: made.append(build(store, workload)))
        assert changes(lambda: made.append(trigger(store)))
        front = made[1]
        assert changes(lambda: store.triggers.update(front.id, function_ref="hello", enabled=False, spec={}, secrets={}))
        assert changes(lambda: store.triggers.remove(front.id))
        assert changes(lambda: store.versions.activate(workload.id, 1))
        assert changes(lambda: store.workloads.mark_deleted(workload.id))
        assert changes(lambda: store.workloads.remove(workload.id))
        assert not changes(lambda: store.workloads.remove(workload.id))
        assert not changes(lambda: store.triggers.remove(front.id))

    def test_an_incremental_snapshot_equals_a_full_one(self, store, workload):
        """After every kind of change, a server that has read before gets the same routes as one that reads for the first time."""
        web = store.workloads.insert(NAMESPACE, Kind.SERVICE, "web", make_workload_spec())
        endpoint = make_endpoint(workload_id=web.id)
        going = []

        def begin() -> None:
            going.append(upload(store, workload))
            store.versions.claim(going[-1].id, "h")

        begin()
        steps = [
            lambda: build(store, web, VersionState.FAILED, "no module x"),
            lambda: build(store, web, VersionState.FAILED, "no module y"),
            lambda: build(store, web),
            lambda: store.versions.finish(going[-1].id, state=VersionState.READY, artifact="deps"),
            lambda: build(store, workload),
            lambda: store.versions.activate(workload.id, 1),
            lambda: store.workloads.update_spec(web.id, make_workload_spec(replicas=0)),
            lambda: build(store, web),
            lambda: store.versions.activate(web.id, 3),
            lambda: store.routes.set_endpoints(web.id, [endpoint]),
            lambda: store.routes.set_endpoints(web.id, [replace(endpoint, draining=True)]),
            lambda: store.routes.set_endpoints(web.id, [replace(endpoint, address="unix:/other")]),
            lambda: store.routes.set_endpoints(web.id, []),
            lambda: trigger(store),
            lambda: store.triggers.update(
                store.triggers.get(NAMESPACE, "front").id, function_ref="hello", enabled=False, spec={"auth": "token"}, secrets={}
            ),
            lambda: store.triggers.update(
                store.triggers.get(NAMESPACE, "front").id, function_ref="web", enabled=True, spec={"auth": "token"}, secrets={}
            ),
            lambda: store.triggers.remove(store.triggers.get(NAMESPACE, "front").id),
            lambda: store.workloads.mark_deleted(web.id),
            lambda: store.workloads.insert(NAMESPACE, Kind.FUNCTION, "web", make_workload_spec()),
        ]
        before = store.routes.find_snapshot(0)
        for number, step in enumerate(steps):
            step()
            seen = store.routes.find_snapshot(before.revision)
            assert seen is not None, number
            first_time = RouteStore(store.database).find_snapshot(0)
            assert set_of(seen) == set_of(first_time), number
            assert set_of(seen) != set_of(before), number
            before = seen

    def test_concurrent_writers_lose_no_change(self, store, make_store):
        stores = [store, make_store()]
        before = store.routes.revision()
        at_once(
            [
                lambda n=n: stores[n % 2].workloads.insert(NAMESPACE, Kind.FUNCTION, f"f{n}", make_workload_spec())
                for n in range(12)
            ]
        )  # fmt: skip
        assert store.routes.revision() == before + 12


class TestEndpoints:
    def test_unchanged_endpoints_are_not_written(self, store, workload):
        first, second = (make_endpoint(workload_id=workload.id) for _ in range(2))
        store.routes.set_endpoints(workload.id, [first, second])
        before = store.routes.revision()
        store.routes.set_endpoints(workload.id, [second, first])
        assert store.routes.revision() == before
        store.routes.set_endpoints(workload.id, [replace(first, draining=True)])
        assert store.routes.endpoints(workload.id) == [replace(first, draining=True)]
        assert store.routes.revision() == before + 1
        store.routes.set_endpoints(workload.id, [])
        assert store.routes.endpoints(workload.id) == []

    def test_a_missing_workload(self, store):
        with pytest.raises(NotFound):
            store.routes.set_endpoints("nobody", [make_endpoint(workload_id="nobody")])
        store.routes.set_endpoints("nobody", [])


class TestLeases:
    @pytest.fixture
    def time_and_store(self, make_store):
        now = [AT]
        return now, make_store(read_time=lambda _conn: now[0])

    def test_one_holder_at_a_time(self, time_and_store):
        _now, store = time_and_store
        assert store.leases.holder("leader") is None
        assert store.leases.acquire("leader", "a", 15)
        assert not store.leases.acquire("leader", "b", 15)
        assert store.leases.holder("leader") == "a"
        assert store.leases.acquire("other", "b", 15)

    def test_a_lease_renewed_in_time_is_kept(self, time_and_store):
        now, store = time_and_store
        store.leases.acquire("leader", "a", 15)
        for _ in range(3):
            now[0] += timedelta(seconds=10)
            assert store.leases.acquire("leader", "a", 15)
        assert not store.leases.acquire("leader", "b", 15)

    def test_a_lease_that_is_not_renewed_is_lost(self, time_and_store):
        now, store = time_and_store
        store.leases.acquire("leader", "a", 15)
        now[0] += timedelta(seconds=15)
        assert store.leases.holder("leader") is None
        assert store.leases.acquire("leader", "b", 15)
        assert not store.leases.acquire("leader", "a", 15)

    def test_a_released_lease_is_free_at_once(self, time_and_store):
        _now, store = time_and_store
        store.leases.acquire("leader", "a", 15)
        store.leases.release("leader", "b")
        assert store.leases.holder("leader") == "a"
        store.leases.release("leader", "a")
        assert store.leases.acquire("leader", "b", 15)

    def test_one_of_many_acquires_it(self, store):
        assert at_once([lambda n=n: store.leases.acquire("leader", f"h{n}", 60) for n in range(8)]).count(True) == 1

    def test_one_of_many_acquires_an_expired_lease(self, make_store):
        now = [AT]
        stores = [make_store(read_time=lambda _conn: now[0]) for _ in range(6)]
        stores[0].leases.acquire("leader", "dead", 15)
        now[0] += timedelta(minutes=1)
        results = at_once([lambda n=n, item=item: item.leases.acquire("leader", f"h{n}", 60) for n, item in enumerate(stores)])
        assert results.count(True) == 1

    def test_one_of_two_processes_acquires_it(self, store, database_url):
        script = (
            "import sys\nfrom sless.store import open_store\n"
            "store = open_store(sys.argv[1])\nprint(store.leases.acquire('leader', store.holder, 60))\nstore.close()\n"
        )
        children = [subprocess.Popen([sys.executable, "-c", script, database_url], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        answers = [child.communicate(timeout=60)[0].strip() for child in children]
        assert sorted(answers) == ["False", "True"]
        assert store.leases.holder("leader") is not None


class TestMeta:
    def test_the_first_value_wins(self, store, make_store):
        stores = [store, make_store(), make_store()]
        answers = at_once([lambda n=n, item=item: item.meta_ensure("installation", f"id{n}") for n, item in enumerate(stores)])
        assert len(set(answers)) == 1
        assert store.meta_ensure("installation", "later") == answers[0]

    def test_ping(self, store):
        store.ping()
