"""A real cluster, when SLESS_TEST_KUBECONFIG names one. CONTRIBUTING.md says what it needs."""

import os

# Read when the module is: a test's own environment holds nothing of the developer's.
GIVEN = {name: value for name, value in os.environ.items() if name.startswith(("SLESS_TEST_", "SLESS_RUNTIME_IMAGE_"))}


def kubeconfig() -> str:
    return GIVEN.get("SLESS_TEST_KUBECONFIG", "")


def settings() -> dict[str, str]:
    """SLESS_TEST_X of any setting X, as the server's own variables: what builds need of a registry, S3 and a builder."""
    return {f"SLESS_{name.removeprefix('SLESS_TEST_')}": value for name, value in GIVEN.items() if name.startswith("SLESS_TEST_")} | {
        name: value for name, value in GIVEN.items() if name.startswith("SLESS_RUNTIME_IMAGE_")
    }


def images() -> dict[str, str]:
    """SLESS_RUNTIME_IMAGE_* as settings: `runtime_image_python311` → reference."""
    return {name.removeprefix("SLESS_").lower(): value for name, value in GIVEN.items() if name.startswith("SLESS_RUNTIME_IMAGE_")}
