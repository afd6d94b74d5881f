"""A real cluster, if SLESS_TEST_KUBECONFIG names one. CONTRIBUTING.md lists its requirements."""

import os
from typing import Any

from sless.config import load

# Read on import, because tests run without the developer's environment.
_GIVEN = {name: value for name, value in os.environ.items() if name.startswith(("SLESS_TEST_", "SLESS_RUNTIME_IMAGE_"))}


def is_given() -> bool:
    return bool(_GIVEN.get("SLESS_TEST_KUBECONFIG"))


def has_registry() -> bool:
    return bool(_GIVEN.get("SLESS_TEST_REGISTRY_HOST"))


def environ() -> dict[str, str]:
    """A server's environment: SLESS_TEST_X becomes SLESS_X, SLESS_RUNTIME_IMAGE_* stay."""
    return {"SLESS_BACKEND": "kubernetes", **{name.replace("SLESS_TEST_", "SLESS_"): value for name, value in _GIVEN.items()}}


def settings() -> dict[str, Any]:
    """The same, as fields of Settings."""
    given = environ()
    loaded = load(given)
    return {name: getattr(loaded, name) for name in (key.removeprefix("SLESS_").lower() for key in given) if name != "backend"}
