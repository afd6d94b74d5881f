"""Fixtures: one running server per test process, and a new tenant for each test."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.product import Product, Tenant, running_product

# Test machines have no real cluster; `make test-kube` names one.
collect_ignore = [] if "SLESS_TEST_KUBECONFIG" in os.environ else ["test_real_cluster.py"]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A server that tests share. Tests that disrupt the server use `own_product`."""
    with running_product(tmp_path_factory.mktemp("product")) as started:
        yield started


@pytest.fixture
def tenant(product: Product) -> Iterator[Tenant]:
    made = product.tenant(f"tenant-{next(_NUMBERS)}")
    yield made
    made.call("DELETE", f"/v1/namespaces/{made.namespace}?confirm={made.namespace}")


@pytest.fixture
def own_product(tmp_path: Path) -> Iterator[Product]:
    """A server for a single test."""
    with running_product(tmp_path) as started:
        yield started


@pytest.fixture
def start_product(tmp_path: Path) -> Iterator[Callable[..., Product]]:
    """Starts a server with the given settings."""
    open_ones = []

    def start(**environ: str) -> Product:
        manager = running_product(tmp_path / f"product-{len(open_ones)}", **environ)
        started = manager.__enter__()
        open_ones.append(manager)
        return started

    yield start
    for manager in reversed(open_ones):
        manager.__exit__(None, None, None)
