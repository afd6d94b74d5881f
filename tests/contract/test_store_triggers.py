"""Triggers: names, one http trigger per target, observed columns."""

from dataclasses import replace

import pytest

from sless.domain.model import TriggerType
from sless.errors import Code, NotFound, SlessError
from tests.builders import NAMESPACE
from tests.contract.store_steps import at_once

HTTP, CRON, EVENT = TriggerType.HTTP, TriggerType.CRON, TriggerType.EVENT


@pytest.fixture
def insert(store):
    def insert_one(name: str, type: TriggerType = HTTP, function_ref: str = "hello", **values):
        return store.triggers.insert(NAMESPACE, name=name, type=type, function_ref=function_ref, **values)

    return insert_one


def change(store, trigger, **changes):
    values = {
        "function_ref": trigger.function_ref,
        "enabled": trigger.enabled,
        "spec": trigger.spec,
        "secrets": trigger.secrets,
    }
    return store.triggers.update(trigger.id, **(values | changes))


class TestInsert:
    def test_a_trigger_round_trips(self, store, insert):
        made = insert("t", EVENT, enabled=False, spec={"queue": "q\0", "prefetch": 3}, secrets={"amqp_url": "amqp://x"})
        assert store.triggers.get(NAMESPACE, "t") == made
        assert store.triggers.find_by_id(made.id) == made
        assert (made.generation, made.enabled, made.spec["prefetch"]) == (1, False, 3)

    def test_names_are_unique(self, insert):
        insert("t", CRON)
        with pytest.raises(SlessError, match='trigger "t" already exists') as caught:
            insert("t", HTTP)
        assert caught.value.code is Code.EXISTS

    def test_one_http_trigger_per_target(self, store, insert):
        insert("first")
        insert("cron", CRON)
        insert("other", HTTP, "web")
        with pytest.raises(SlessError, match='"hello" already has an http trigger: "first"') as caught:
            insert("second")
        assert caught.value.code is Code.CONFLICT

    def test_concurrent_inserts_for_one_target_or_name_succeed_once(self, store, insert):
        def tried(name: str, function_ref: str) -> Code | None:
            try:
                insert(name, HTTP, function_ref)
            except SlessError as error:
                return error.code
            return None

        results = at_once([lambda n=n: tried(f"t{n}", "hello") for n in range(6)])
        assert results.count(None) == 1 and results.count(Code.CONFLICT) == 5
        results = at_once([lambda n=n: tried("same", f"target{n}") for n in range(6)])
        assert results.count(None) == 1 and results.count(Code.EXISTS) == 5

    def test_an_unknown_namespace(self, store):
        with pytest.raises(NotFound):
            store.triggers.insert("nowhere", name="t", type=CRON, function_ref="x")


class TestReads:
    def test_lists(self, store, insert):
        for name, type in (("b", HTTP), ("a-b", CRON), ("ab", CRON)):
            insert(name, type)
        insert("c", CRON, "other")
        assert [item.name for item in store.triggers.list_in(NAMESPACE)] == ["a-b", "ab", "b", "c"]
        assert [item.name for item in store.triggers.list_in(NAMESPACE, limit=2, after_name="ab")] == ["b", "c"]
        assert [item.name for item in store.triggers.list_for(NAMESPACE, "hello")] == ["a-b", "ab", "b"]
        assert [item.name for item in store.triggers.list_all(HTTP)] == ["b"]
        assert len(store.triggers.list_all()) == 4

    def test_unknown(self, store):
        assert store.triggers.find(NAMESPACE, "x") is None
        assert store.triggers.find_by_id("x") is None
        with pytest.raises(NotFound, match='trigger "x" not found'):
            store.triggers.get(NAMESPACE, "x")


class TestUpdate:
    def test_an_update_replaces_all_and_raises_the_generation(self, store, insert):
        made = insert("t", CRON)
        before = store.routes.revision()
        changed = change(store, made, function_ref="other", enabled=False, spec={"schedule": "* * * * *"}, secrets={"k": "v"})
        assert (changed.function_ref, changed.enabled, changed.generation) == ("other", False, 2)
        assert store.triggers.get(NAMESPACE, "t") == changed
        assert store.routes.revision() > before

    def test_an_unexpected_generation_is_refused(self, store, insert):
        made = insert("t")
        change(store, made, enabled=False, expected_generation=1)
        with pytest.raises(SlessError) as caught:
            change(store, made, enabled=True, expected_generation=1)
        assert caught.value.code is Code.PRECONDITION_FAILED
        assert not store.triggers.get(NAMESPACE, "t").enabled

    def test_an_update_cannot_take_the_target_of_another_trigger(self, store, insert):
        insert("first")
        second = insert("second", HTTP, "web")
        with pytest.raises(SlessError, match='"hello" already has an http trigger: "first"') as caught:
            change(store, second, function_ref="hello")
        assert caught.value.code is Code.CONFLICT
        assert store.triggers.get(NAMESPACE, "second") == second

    def test_concurrent_updates_to_one_target_succeed_once(self, store, insert):
        made = [insert(name, HTTP, name) for name in ("a", "b", "c", "d")]

        def tried(trigger) -> Code | None:
            try:
                change(store, trigger, function_ref="wanted")
            except SlessError as error:
                return error.code
            return None

        results = at_once([lambda item=item: tried(item) for item in made])
        assert results.count(None) == 1 and results.count(Code.CONFLICT) == 3

    def test_a_removed_trigger(self, store, insert):
        made = insert("t")
        store.triggers.remove(made.id)
        with pytest.raises(NotFound, match=r"trigger .* not found"):
            change(store, made)


class TestDeleting:
    def test_name_and_target_are_free_after_a_delete(self, store, insert):
        old = insert("t")
        store.triggers.remove(old.id)
        assert store.triggers.find(NAMESPACE, "t") is None and store.triggers.list_for(NAMESPACE, "hello") == []
        new = insert("t")
        assert store.triggers.get(NAMESPACE, "t") == new
        store.triggers.remove(old.id)
        assert [item.id for item in store.triggers.list_all()] == [new.id]


class TestObserved:
    def test_observed_columns_change_nothing_else(self, store, insert):
        made = insert("t", EVENT)
        before = store.routes.revision()
        store.triggers.set_observed(made.id, message="late\0", active=True, last_status="succeeded")
        assert store.triggers.get(NAMESPACE, "t") == replace(
            made, observed_message="late\ufffd", observed_active=True, last_status="succeeded"
        )
        assert store.routes.revision() == before
