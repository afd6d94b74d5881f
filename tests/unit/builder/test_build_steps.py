"""The order of the steps of a build, with fakes."""

from dataclasses import dataclass, field
from typing import Any

from sless.builder.build_steps import Steps
from sless.builder.builder_fit import builder_fit_of
from sless.builder.references import RegistryName
from sless.builder.registry import RegistryFailed
from sless.builder.work import Work
from sless.config import Settings
from tests.contract.backend_harness import MemoryCode
from tests.contract.builder_harness import LocalBuilderHarness


@dataclass
class NewHarbor:
    """Registry and Harbor in one: until the project exists, it rejects the password."""

    name: RegistryName = field(default_factory=lambda: RegistryName(host="harbor.test", path="fn", project="fn"))
    projects: set[str] = field(default_factory=set)

    def ensure_project(self, project: str) -> None:
        self.projects.add(project)

    def find_digest(self, image: Any) -> str | None:
        if not self.projects:
            raise RegistryFailed("the registry rejected the registry secret")
        return "sha256:1"


def test_harbor_project_is_created_before_its_images_are_looked_up() -> None:
    code, harbor = MemoryCode(), NewHarbor()
    spec = LocalBuilderHarness.spec_of(code_key=code.add({"handler.py": "", "requirements.txt": "x==1\n"}))
    fit = builder_fit_of(Settings(registry_host="harbor.test", registry_project="fn"), "i")
    given: dict[str, Any] = {"kube": None, "contexts": None, "ensure_tenant": lambda namespace: None}
    steps = Steps(fit=fit, code=code, registry=harbor, harbor=harbor, **given)  # type: ignore[arg-type]
    artifact = steps._make_new(Work(spec, lambda: None, 60))
    assert artifact.startswith("harbor.test/fn/") and harbor.projects == {"fn"}
