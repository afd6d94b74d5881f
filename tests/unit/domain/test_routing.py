"""Routes: which workloads have instances, and why a call cannot be served."""

import pytest

from sless.domain.model import Kind, Observed, TriggerType, VersionState
from sless.domain.routing import revision_of, route_of, wants_instances
from sless.errors import STATUS, Code
from tests.builders import AT, make_endpoint, make_trigger, make_version, make_workload

ONE = make_version()
HTTP = make_trigger(name="front")


def failed(**changes):
    return make_version(**{"number": 2, "state": VersionState.FAILED, "message": "no module x"} | changes)


def blocked(workload, *, active=ONE, newest=ONE, triggers=(), endpoints=()):
    return route_of(workload, active=active, newest=newest, triggers=triggers, endpoints=endpoints).blocked


@pytest.mark.parametrize(
    ("kind", "trigger", "expected"),
    [
        (Kind.SERVICE, None, True),
        (Kind.SERVICE, make_trigger(enabled=False), True),
        (Kind.FUNCTION, None, False),
        (Kind.FUNCTION, make_trigger(), True),
        (Kind.FUNCTION, make_trigger(enabled=False), False),
        (Kind.FUNCTION, make_trigger(type=TriggerType.EVENT), True),
        (Kind.FUNCTION, make_trigger(type=TriggerType.CRON), False),
        (Kind.JOB, make_trigger(), False),
    ],
)
def test_which_workloads_want_instances(kind, trigger, expected):
    assert wants_instances(kind, [trigger] if trigger else []) is expected
    assert wants_instances(kind, [make_trigger(type=TriggerType.CRON), *([trigger] if trigger else [])]) is expected


def test_a_revision_has_the_versions_code_and_the_workloads_limits():
    spec = {
        "runtime": "nodejs20", "entrypoint": "next.one", "memory_mb": 512, "timeout_sec": 7, "concurrency": 2,
        "event_format": "aws-http-v2",
        "env_vars": {"A": "1", "B": "1"}, "secret_env": {"B": "2"}, "build_env": {"C": "3"},
    }  # fmt: skip
    workload = make_workload(spec=spec)
    revision = revision_of(workload, make_version(number=4, runtime="python3.11", entrypoint="a.b", code_key="k", artifact="deps"))
    assert (revision.version, revision.runtime, revision.entrypoint, revision.code_key, revision.artifact) == (
        4,
        "python3.11",
        "a.b",
        "k",
        "deps",
    )
    assert (revision.memory_mb, revision.timeout_sec, revision.concurrency, revision.event_format) == (512, 7, 2, "aws-http-v2")
    assert revision.env == {"A": "1", "B": "2"}
    assert (revision.workload_id, revision.namespace, revision.name) == (workload.id, workload.namespace, "hello")


class TestRoute:
    def test_a_callable_function(self):
        workload = make_workload()
        endpoint = make_endpoint(workload_id=workload.id)
        route = route_of(workload, active=ONE, newest=failed(), triggers=[HTTP], endpoints=[endpoint])
        assert route.blocked is None
        assert route.revision == revision_of(workload, ONE)
        assert (route.endpoints, route.wants_instances) == ((endpoint,), True)

    def test_without_an_http_trigger(self):
        route = route_of(make_workload(), active=ONE, newest=ONE, triggers=[make_trigger(type=TriggerType.CRON)], endpoints=())
        assert (route.http, route.blocked, route.wants_instances) == (None, None, False)

    def test_policy_of_the_trigger(self):
        spec = {"methods": ["GET", "POST"], "auth": "key", "cors": {"origins": ["*"]}, "rate_limit": 60}
        trigger = make_trigger(spec=spec, secrets={"key_sha256": "ab", "other": "x"})
        http = route_of(make_workload(), active=ONE, newest=ONE, triggers=[trigger], endpoints=()).http
        assert (http.enabled, http.methods, http.auth, http.key_hashes) == (True, ("GET", "POST"), "key", ("ab",))
        assert (http.cors, http.rate_limit) == ({"origins": ["*"]}, 60)

    def test_default_policy(self):
        trigger = make_trigger(spec={"methods": None, "auth": None, "cors": None, "rate_limit": None})
        http = route_of(make_workload(), active=ONE, newest=ONE, triggers=[trigger], endpoints=()).http
        assert (http.methods, http.auth, http.key_hashes, http.cors, http.rate_limit) == ((), "none", (), None, None)


class TestBlocked:
    def test_disabled(self):
        off = make_trigger(name="front", enabled=False)
        expected = (Code.DISABLED, 'function "hello" is disabled: its http trigger "front" is not enabled')
        assert blocked(make_workload(), triggers=[off]) == expected
        assert blocked(make_workload(kind=Kind.SERVICE), triggers=[off])[1].startswith('service "hello" is disabled')

    @pytest.mark.parametrize(
        ("newest", "code", "text"),
        [
            (None, Code.NOT_READY, 'function "hello" has no code yet; upload it first'),
            (make_version(state=VersionState.QUEUED), Code.NOT_READY, 'function "hello" is being built: version 1 is queued'),
            (make_version(state=VersionState.BUILDING), Code.NOT_READY, 'function "hello" is being built: version 1 is building'),
            (failed(), Code.BUILD_FAILED, 'function "hello" has no working version: version 2 failed: no module x'),
            (failed(message=""), Code.BUILD_FAILED, 'function "hello" has no working version: version 2 failed'),
            (
                failed(state=VersionState.CANCELLED, message=""),
                Code.BUILD_FAILED,
                'function "hello" has no working version: version 2 was cancelled',
            ),
            (ONE, Code.NOT_READY, 'function "hello" has no active version; version 1 is ready, activate it'),
        ],
    )
    def test_without_a_version(self, newest, code, text):
        route = route_of(make_workload(), active=None, newest=newest, triggers=[HTTP], endpoints=())
        assert route.blocked == (code, text)
        assert route.revision is None

    def test_a_failed_build_does_not_block_a_working_version(self):
        assert blocked(make_workload(), newest=failed()) is None
        assert blocked(make_workload(), newest=make_version(number=2, state=VersionState.BUILDING)) is None

    def test_replicas_0(self):
        stopped = make_workload(kind=Kind.SERVICE, spec={"replicas": 0})
        assert blocked(stopped) == (Code.NO_INSTANCES, 'service "hello" is scaled to 0; set replicas to 1 or more')
        assert blocked(make_workload(spec={"replicas": 0})) is None

    def test_instances_that_do_not_start(self):
        failing = Observed(generation=0, version=None, ready_instances=0, message="function exited with code 3", failing=True, wanted=1)
        expected = (Code.NO_INSTANCES, 'function "hello" has no instances: function exited with code 3')
        assert blocked(make_workload(observed=failing), triggers=[HTTP]) == expected

    @pytest.mark.parametrize(
        ("observed", "endpoints"),
        [
            ({"generation": 0, "version": None, "failing": False}, ()),
            ({"generation": 0, "version": None, "wanted": 0}, ()),
            ({"generation": 0, "version": None, "message": ""}, ()),
            ({"generation": 1, "version": 1}, ()),
            ({"generation": 0, "version": None}, (make_endpoint(version=0),)),
        ],
        ids=["starting", "an older generation failed", "for an unknown reason", "ended after it served", "an older version serves"],
    )
    def test_calls_wait_for_starting_instances(self, observed, endpoints):
        values = {"ready_instances": 0, "message": "function exited with code 3", "failing": True, "wanted": 1} | observed
        workload = make_workload(observed=Observed(**values), generation=1)
        assert blocked(workload, triggers=[HTTP], endpoints=endpoints) is None

    def test_the_active_version_is_rebuilt(self):
        """After a restore without build results: calls wait for instances, a one-off run cannot."""
        rebuilt = make_version(state=VersionState.QUEUED)
        assert blocked(make_workload(), active=rebuilt, newest=failed(), triggers=[HTTP]) is None
        expected = (Code.NOT_READY, 'function "hello" is being built: version 1 is queued')
        assert blocked(make_workload(), active=rebuilt, newest=failed()) == expected
        lost = make_version(state=VersionState.FAILED, message="no module x")
        expected = (Code.BUILD_FAILED, 'function "hello" has no working version: version 1 failed: no module x')
        assert blocked(make_workload(), active=lost, newest=lost, triggers=[HTTP]) == expected

    def test_deleting_is_checked_first_and_disabled_last(self):
        off = make_trigger(enabled=False)
        assert blocked(make_workload(deleted_at=AT), active=None, newest=None) == (Code.NOT_FOUND, 'function "hello" is being deleted')
        assert blocked(make_workload(), active=None, newest=failed(), triggers=[off])[0] is Code.BUILD_FAILED
        assert blocked(make_workload(kind=Kind.SERVICE, spec={"replicas": 0}), triggers=[off])[0] is Code.NO_INSTANCES

    def test_statuses(self):
        assert {STATUS[code] for code in (Code.DISABLED, Code.NOT_READY, Code.BUILD_FAILED, Code.NO_INSTANCES)} == {503}
