"""Versions: numbers, the compare-and-set from queued to ended, activation, clean-up, build log."""

import itertools
import subprocess
import sys
from datetime import timedelta

import pytest

from sless.domain.model import Kind, VersionState
from sless.errors import Code, NotFound, SlessError
from sless.store import dump
from tests.builders import ENCRYPTION_KEY, NAMESPACE, make_workload_spec
from tests.contract.store_steps import at_once, build, upload

READY, FAILED, QUEUED, BUILDING, CANCELLED = (
    VersionState.READY,
    VersionState.FAILED,
    VersionState.QUEUED,
    VersionState.BUILDING,
    VersionState.CANCELLED,
)


def states_of(store, workload) -> dict[int, VersionState]:
    return {version.number: version.state for version in store.versions.list_of(workload.id)}


class TestInsert:
    def test_a_version_round_trips(self, store, workload):
        version = upload(store, workload, code_hash="ä", build_env={"TOKEN": "geheim\0"}, size_bytes=2**40)
        assert store.versions.get(workload.id, 1) == version
        assert store.versions.find_by_id(version.id) == version
        assert (version.number, version.state, version.attempts, version.auto_activate) == (1, QUEUED, 0, True)

    def test_a_newer_version_supersedes_queued_ones(self, store, workload):
        first, second = upload(store, workload), upload(store, workload)
        store.versions.claim(second.id, "h")
        third, _fourth = upload(store, workload), upload(store, workload)
        assert states_of(store, workload) == {4: QUEUED, 3: CANCELLED, 2: BUILDING, 1: CANCELLED}
        assert store.versions.get(workload.id, first.number).message == "superseded by version 2"
        superseded = store.versions.get(workload.id, third.number)
        assert superseded.message == "superseded by version 4" and superseded.ended_at is not None

    def test_a_rebuilt_version_is_not_superseded(self, store, workload):
        first = upload(store, workload)
        store.versions.claim(first.id, "h")
        store.versions.finish(first.id, state=READY)
        dump.queue_builds(store.database, [first.id])
        upload(store, workload)
        assert states_of(store, workload) == {2: QUEUED, 1: QUEUED}

    def test_each_workload_has_its_own_numbers(self, store, workload):
        other = store.workloads.insert(NAMESPACE, Kind.JOB, "job", make_workload_spec())
        upload(store, workload)
        assert upload(store, other).number == 1
        assert upload(store, workload).number == 2

    def test_concurrent_inserts_get_numbers_without_gaps(self, store, workload):
        made = at_once([lambda: upload(store, workload)] * 8)
        assert sorted(version.number for version in made) == list(range(1, 9))
        assert list(states_of(store, workload).values()).count(QUEUED) == 1

    def test_a_deleted_workload(self, store, workload):
        store.workloads.mark_deleted(workload.id)
        with pytest.raises(SlessError, match='function "hello" is being deleted'):
            upload(store, workload)
        store.workloads.remove(workload.id)
        with pytest.raises(NotFound):
            upload(store, workload)

    def test_unknown(self, store, workload):
        with pytest.raises(NotFound, match='version "7" not found'):
            store.versions.get(workload.id, 7)
        assert store.versions.find(workload.id, 7) is None
        assert store.versions.find_newest(workload.id) is None


class TestReads:
    def test_pages_are_sorted_highest_first(self, store, workload):
        for _ in range(5):
            build(store, workload)
        assert [item.number for item in store.versions.list_of(workload.id)] == [5, 4, 3, 2, 1]
        assert [item.number for item in store.versions.list_of(workload.id, limit=2)] == [5, 4]
        assert [item.number for item in store.versions.list_of(workload.id, limit=2, before_number=4)] == [3, 2]

    def test_versions_of_many_workloads(self, store, workload):
        other = store.workloads.insert(NAMESPACE, Kind.SERVICE, "web", make_workload_spec())
        empty = store.workloads.insert(NAMESPACE, Kind.SERVICE, "empty", make_workload_spec())
        build(store, workload), build(store, workload, FAILED), build(store, other)
        ids = [workload.id, other.id, empty.id, "nobody"]
        assert {key: item.number for key, item in store.versions.newest_of(ids).items()} == {workload.id: 2, other.id: 1}
        assert {key: item.number for key, item in store.versions.active_of(ids).items()} == {workload.id: 1, other.id: 1}
        assert store.versions.active_of([]) == {}

    def test_more_ids_than_fit_in_one_statement(self, store, workload):
        build(store, workload)
        ids = [f"id{number}" for number in range(70_000)] + [workload.id]
        assert list(store.versions.newest_of(ids)) == [workload.id]

    def test_open_versions_are_sorted_oldest_first(self, store, workload):
        other = store.workloads.insert(NAMESPACE, Kind.SERVICE, "web", make_workload_spec())
        build(store, other)
        first, second = upload(store, other), upload(store, workload)
        store.versions.claim(second.id, "h")
        assert [item.id for item in store.versions.list_open()] == [first.id, second.id]
        assert len(store.versions.list_kept()) == 3


class TestClaim:
    def test_a_claim_counts_the_attempt(self, store, workload):
        version = upload(store, workload)
        assert store.versions.claim(version.id, "h")
        claimed = store.versions.get(workload.id, 1)
        assert (claimed.state, claimed.attempts) == (BUILDING, 1)
        assert claimed.started_at is not None

    def test_an_ended_version_cannot_be_claimed(self, store, workload):
        for state in (READY, FAILED, CANCELLED):
            version = build(store, workload, state)
            assert not store.versions.claim(version.id, "h")
            assert store.versions.get(workload.id, version.number).state is state
        assert not store.versions.claim("nobody", "h")

    def test_one_of_many_threads_claims_it(self, make_store, store, workload):
        version = upload(store, workload)
        holders = [f"h{number}" for number in range(8)]
        for holder in holders:
            store.leases.acquire(f"lease of {holder}", holder, 60)
        results = at_once([lambda holder=holder: store.versions.claim(version.id, holder) for holder in holders])
        assert results.count(True) == 1
        assert store.versions.get(workload.id, 1).attempts == 1

    def test_a_claim_is_taken_over_only_from_a_dead_holder(self, store, workload, make_store):
        now = [store.workloads.get_by_id(workload.id).created_at]
        later = make_store(read_time=lambda _conn: now[0])
        version = upload(store, workload)
        assert later.leases.acquire("leader", "old", 15)
        assert later.versions.claim(version.id, "old")
        assert not later.versions.claim(version.id, "new")
        now[0] += timedelta(seconds=16)
        assert later.versions.claim(version.id, "new")
        assert store.versions.get(workload.id, 1).attempts == 2

    def test_the_holder_can_claim_again(self, store, workload):
        version = upload(store, workload)
        store.leases.acquire("leader", "h", 60)
        assert store.versions.claim(version.id, "h") and store.versions.claim(version.id, "h")
        assert store.versions.get(workload.id, 1).attempts == 2

    def test_two_processes_claim_each_version_once(self, store, database_url):
        ids = []
        for number in range(30):
            owner = store.workloads.insert(NAMESPACE, Kind.FUNCTION, f"f{number}", make_workload_spec())
            ids.append(upload(store, owner).id)
        script = (
            "import sys\nfrom sless.store import FixedKeys, Keyring, open_store\n"
            "url, holder, key = sys.argv[1:4]\nstore = open_store(url, holder=holder, keyring=Keyring(FixedKeys([key])))\n"
            "store.leases.acquire('lease of ' + holder, holder, 600)\n"
            "print('ready', flush=True)\nsys.stdin.readline()\n"
            "print(*[item.id for item in store.versions.list_open() if store.versions.claim(item.id, holder)])\n"
            "store.close()\n"
        )
        children = [
            subprocess.Popen(
                [sys.executable, "-c", script, database_url, holder, ENCRYPTION_KEY],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for holder in ("one", "two")
        ]
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        claimed = [child.communicate(timeout=60)[0].split() for child in children]
        assert [child.returncode for child in children] == [0, 0]
        assert sorted(itertools.chain(*claimed)) == sorted(ids)
        assert {item.attempts for item in store.versions.list_open()} == {1}


class TestFinish:
    def test_a_ready_version_becomes_active(self, store, workload):
        version = upload(store, workload)
        store.versions.claim(version.id, "h")
        assert store.versions.finish(version.id, state=READY, message="", artifact="registry/x:1")
        ended = store.versions.get(workload.id, 1)
        assert (ended.state, ended.artifact) == (READY, "registry/x:1")
        assert ended.ended_at is not None
        changed = store.workloads.get_by_id(workload.id)
        assert (changed.active_version, changed.generation) == (1, 2)

    def test_a_failed_version_does_not_become_active(self, store, workload):
        build(store, workload)
        version = build(store, workload, FAILED, "pip: no such package\0")
        assert version.message == "pip: no such package\ufffd"
        assert store.workloads.get_by_id(workload.id).active_version == 1

    @pytest.mark.parametrize("state", [READY, FAILED, CANCELLED])
    def test_only_a_building_version_can_finish_and_only_once(self, store, workload, state):
        version = upload(store, workload)
        assert not store.versions.finish(version.id, state=READY) and not store.versions.finish(version.id, state=FAILED)
        store.versions.claim(version.id, "h")
        assert store.versions.finish(version.id, state=state)
        for again in (READY, FAILED, CANCELLED):
            assert not store.versions.finish(version.id, state=again)
        assert store.versions.get(workload.id, 1).state is state
        assert not store.versions.finish("nobody", state=READY)

    def test_one_of_many_concurrent_ends_counts(self, store, workload):
        version = upload(store, workload)
        store.versions.claim(version.id, "h")
        calls = [lambda: store.versions.finish(version.id, state=READY), lambda: store.versions.cancel(version.id)] * 4
        assert at_once(calls).count(True) == 1

    def test_an_older_build_that_ends_later_does_not_become_active(self, store, workload):
        old = upload(store, workload)
        store.versions.claim(old.id, "h")
        build(store, workload)
        assert store.versions.finish(old.id, state=READY)
        assert store.workloads.get_by_id(workload.id).active_version == 2

    def test_cancel(self, store, workload):
        waiting = upload(store, workload)
        assert store.versions.cancel(waiting.id) and not store.versions.cancel(waiting.id)
        going = upload(store, workload)
        store.versions.claim(going.id, "h")
        assert store.versions.cancel(going.id, "the workload was deleted")
        assert store.versions.get(workload.id, 2).message == "the workload was deleted"
        assert not store.versions.cancel(build(store, workload).id)


class TestActivate:
    def test_restores_runtime_and_entrypoint(self, store, workload):
        build(store, workload, runtime="nodejs20", entrypoint="old.main")
        build(store, workload)
        before = store.workloads.get_by_id(workload.id)
        assert store.versions.activate(workload.id, 1).number == 1
        after = store.workloads.get_by_id(workload.id)
        assert (after.active_version, after.spec.runtime, after.spec.entrypoint) == (1, "nodejs20", "old.main")
        assert after.generation == before.generation + 1

    def test_a_running_build_does_not_undo_an_activation(self, store, workload):
        build(store, workload), build(store, workload)
        going = upload(store, workload)
        store.versions.claim(going.id, "h")
        store.versions.activate(workload.id, 1)
        store.versions.finish(going.id, state=READY)
        assert store.workloads.get_by_id(workload.id).active_version == 1
        build(store, workload)
        assert store.workloads.get_by_id(workload.id).active_version == 4

    @pytest.mark.parametrize("state", [FAILED, CANCELLED])
    def test_only_a_ready_version_can_be_activated(self, store, workload, state):
        build(store, workload)
        build(store, workload, state)
        with pytest.raises(SlessError, match=f'version 2 of function "hello" is {state}, only a ready one can be activated') as caught:
            store.versions.activate(workload.id, 2)
        assert caught.value.code is Code.CONFLICT
        assert store.workloads.get_by_id(workload.id).active_version == 1

    def test_unknown(self, store, workload):
        with pytest.raises(NotFound):
            store.versions.activate(workload.id, 1)

    def test_activation_races_the_end_of_a_build(self, store, workload):
        """The rollback wins in either order."""
        build(store, workload)
        for _ in range(5):
            going = upload(store, workload)
            store.versions.claim(going.id, "h")
            at_once([lambda: store.versions.activate(workload.id, 1), lambda going=going: store.versions.finish(going.id, state=READY)])
            assert store.workloads.get_by_id(workload.id).active_version == 1


class TestPruning:
    def test_ended_versions_beyond_the_limit_but_not_the_active_one(self, store, workload):
        for state in (READY, FAILED, READY, CANCELLED, READY):
            build(store, workload, state)
        store.versions.activate(workload.id, 1)
        upload(store, workload)
        assert sorted(item.number for item in store.versions.prunable(3)) == [2, 3]
        assert sorted(item.number for item in store.versions.prunable(1)) == [2, 3, 4, 5]
        assert store.versions.prunable(10) == []
        assert sorted(item.number for item in store.versions.prunable(10, {NAMESPACE: 3, "other": 1})) == [2, 3]
        assert sorted(item.number for item in store.versions.prunable(3, {"other": 1})) == [2, 3]

    def test_an_open_version_stays(self, store, workload):
        old = upload(store, workload)
        store.versions.claim(old.id, "h")
        for _ in range(3):
            build(store, workload)
        assert [item.number for item in store.versions.prunable(1)] == [2, 3]

    def test_code_is_deleted_with_its_last_version(self, store, workload):
        for _ in range(2):
            build(store, workload, code_key="same.zip")
        build(store, workload, code_key="other.zip")
        first, second = store.versions.get(workload.id, 1), store.versions.get(workload.id, 2)
        store.versions.add_log(first.id, ["line"])
        assert store.versions.remove(first.id) is None
        assert store.versions.remove(second.id) == "same.zip"
        assert store.versions.log(first.id) == []
        assert store.versions.remove(second.id) is None
        assert [item.number for item in store.versions.list_of(workload.id)] == [3]

    def test_code_built_several_times_counts_once_and_keeps_its_newest_two_builds(self, store, workload):
        build(store, workload)
        for _ in range(5):
            build(store, workload, code_key="again.zip")
        build(store, workload)
        assert [item.number for item in store.versions.prunable(3)] == [2, 3, 4]
        assert [item.number for item in store.versions.prunable(2)] == [1, 2, 3, 4]

    def test_unused_artifacts_of_removed_versions_are_listed_for_discarding(self, store, workload):
        for artifact in ("host/a:1", "host/a:1", "host/a:2", ""):
            version = upload(store, workload)
            store.versions.claim(version.id, "h")
            store.versions.finish(version.id, state=READY, artifact=artifact)
        first, _second, third, _last = reversed(store.versions.list_of(workload.id))
        store.versions.remove(first.id)
        store.versions.remove(third.id)
        assert store.discards.list(10) == ["host/a:2"], "the other one is still used"
        assert store.discards.is_used("host/a:1") and not store.discards.is_used("host/a:2")
        store.workloads.remove(workload.id)
        assert store.discards.list(10) == ["host/a:1", "host/a:2"]
        store.discards.remove("host/a:1")
        assert store.discards.list(10) == ["host/a:2"]

    def test_a_version_activated_meanwhile_stays(self, store, workload):
        build(store, workload), build(store, workload)
        (old,) = store.versions.prunable(1)
        store.versions.activate(workload.id, old.number)
        assert store.versions.remove(old.id) is None
        assert store.versions.find_by_id(old.id) is not None


class TestBuildLog:
    def test_lines_are_appended(self, store, workload):
        version = upload(store, workload)
        store.versions.add_log(version.id, ["one", "two"])
        store.versions.add_log(version.id, [])
        store.versions.add_log(version.id, ["drei ✓"])
        assert store.versions.log(version.id) == [(1, "one"), (2, "two"), (3, "drei ✓")]
        assert store.versions.log(version.id, after_seq=2) == [(3, "drei ✓")]

    def test_characters_that_databases_refuse_are_replaced(self, store, workload):
        version = upload(store, workload)
        store.versions.add_log(version.id, ["a\0b", "c\ud83dd"])
        assert store.versions.log(version.id) == [(1, "a\ufffdb"), (2, "c\ufffdd")]

    def test_concurrent_writers_lose_no_lines(self, store, workload):
        version = upload(store, workload)
        at_once([lambda name=name: store.versions.add_log(version.id, [name, name]) for name in "abcdef"])
        found = store.versions.log(version.id)
        assert [seq for seq, _ in found] == list(range(1, 13))
        assert sorted(text for _, text in found) == sorted("abcdef" * 2)

    def test_a_missing_version(self, store):
        store.versions.add_log("nobody", ["line"])
        assert store.versions.log("nobody") == []

    def test_code_hash_can_be_set_later(self, store, workload):
        version = upload(store, workload)
        store.versions.set_code_hash(version.id, "new")
        assert store.versions.get(workload.id, 1).code_hash == "new"
