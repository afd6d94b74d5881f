"""Fixtures: one running server per test process, and a new tenant for each test."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.product import Product, Tenant, running_product

# Test machines have no real cluster; `make test-kube` names one.
collect_ignore = [] if "SLESS_TEST_KUBECONFIG" in os.environ else ["test_real_cluster.py"]
OPERATOR = "the-operator"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A server that tests share. Tests that disrupt the server use `restartable` or `own_product`."""
    with running_product(tmp_path_factory.mktemp("product"), SLESS_OPERATOR_SUBS=OPERATOR) as started:
        yield started


@pytest.fixture
def tenant(product: Product) -> Iterator[Tenant]:
    yield from _new_tenant(product)


@pytest.fixture
def operator(product: Product) -> Tenant:
    """The operator of `product`."""
    return product.tenant(OPERATOR)


@pytest.fixture(scope="session")
def _restartable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    # Running calls get three seconds when it stops: the setting minus five seconds for the rest of the shutdown.
    with running_product(tmp_path_factory.mktemp("restartable"), SLESS_GRACEFUL_TIMEOUT_SEC="8") as started:
        yield started


@pytest.fixture
def restartable(_restartable: Product) -> Product:
    """A server that tests share and may end or kill; it runs when a test begins."""
    if not _restartable.is_running:
        _restartable.start()
    return _restartable


@pytest.fixture
def its_tenant(restartable: Product) -> Iterator[Tenant]:
    """A new tenant of `restartable`."""
    yield from _new_tenant(restartable)


def _new_tenant(product: Product) -> Iterator[Tenant]:
    made = product.tenant(f"tenant-{next(_NUMBERS)}")
    yield made
    made.leave()


@pytest.fixture
def own_product(tmp_path: Path) -> Iterator[Product]:
    """A server for a single test."""
    with running_product(tmp_path) as started:
        yield started


@pytest.fixture
def start_product(tmp_path: Path) -> Iterator[Callable[..., Product]]:
    """Starts servers with the given settings, which end with the test."""
    numbers = itertools.count(1)
    with contextlib.ExitStack() as stack:

        def start(**environ: str) -> Product:
            return stack.enter_context(running_product(tmp_path / f"product-{next(numbers)}", **environ))

        yield start
