"""The cache of the cluster's objects, written and rebuilt by several threads."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from sless.backend.kubernetes.view import ObjectCache


def item(name: str) -> dict:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": "1"}}


@pytest.fixture
def busy_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_a_write_during_a_merge_is_kept(busy_switching):
    cache, began = ObjectCache("ins"), time.monotonic()
    for number in range(300):
        cache.put("Secret", item(f"old{number}"))
    done = threading.Event()

    def merge() -> None:
        while not done.is_set():
            cache.merge("Service", [], began)

    merging = threading.Thread(target=merge)
    merging.start()
    for number in range(3_000):
        cache.put("Service", item(f"new{number}"))
    done.set()
    merging.join()
    assert sum(cached.kind == "Service" for cached in cache.all()) == 3_000


def test_a_list_that_began_before_a_write_does_not_undo_it():
    cache = ObjectCache("ins")
    began = time.monotonic()
    cache.put("Service", item("a"))
    cache.merge("Service", [], began)
    assert cache.find("Service/ns/a") is not None
    cache.merge("Service", [], time.monotonic())
    assert cache.find("Service/ns/a") is None
