"""Memory × time of standing instances, against a real store."""

from dataclasses import replace
from datetime import timedelta

from sless import clock
from sless.domain.ports import ObservedDeployment
from sless.reconcile.uptime import UptimeMeter
from sless.store import open_store
from tests.builders import NAMESPACE, make_endpoint, make_workload


def test_uptime_is_memory_times_time(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/x.db", durable=False)
    store.migrate()
    workload = make_workload(spec={"memory_mb": 512})
    workloads = {workload.id: workload}
    two = {workload.id: ObservedDeployment(workload_id=workload.id, generation=1, endpoints=(make_endpoint(id="a"), make_endpoint(id="b")))}
    meter = UptimeMeter(store=store)
    meter.note(workloads, two, 100.0)
    meter.note(workloads, two, 104.0)
    meter.note(workloads, replace_endpoints(two), 104.5)
    meter.note(workloads, {}, 115.0)
    since = clock.now() - timedelta(days=1)
    assert sum(store.uptime.by_day(NAMESPACE, since).values()) == 4.0 + 0.25
    store.close()


def replace_endpoints(observed):
    return {key: replace(item, endpoints=item.endpoints[:1]) for key, item in observed.items()}
