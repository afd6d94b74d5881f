"""The bench's backend implements the protocol; otherwise its groups with a given upstream do not start."""

import inspect

import pytest

from sless.domain.ports import Backend
from tests.bench.static_server import StaticBackend

METHODS = [name for name, member in vars(Backend).items() if inspect.isfunction(member) and not name.startswith("_")]


@pytest.mark.parametrize("name", METHODS)
def test_methods_match_the_protocol(name):
    assert inspect.signature(getattr(StaticBackend, name)).parameters.keys() == inspect.signature(getattr(Backend, name)).parameters.keys()


def test_the_protocol_was_found():
    assert {"observe", "apply", "keep_namespaces"} <= set(METHODS)
