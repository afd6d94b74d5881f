"""What needs no build: for who starts code without waiting for one."""

from sless.builder.dependencies import find_installation
from sless.domain.ports import BuildSpec
from sless.domain.runtimes import RUNTIMES
from sless.host.material import Material, MaterialKey

_COMPILED = frozenset({"go"})


def is_compiled(runtime: str) -> bool:
    return RUNTIMES[runtime].language in _COMPILED


def find_artifact(material: Material, spec: BuildSpec) -> str | None:
    """The artifact that a build of this would end with, if there is nothing to compile and all that it asks to have installed is
    installed already; else None. Raises dependencies.WrongManifest and what `Material.ensure` raises."""
    if is_compiled(spec.runtime):
        return None
    code_dir = material.ensure(MaterialKey(code_key=spec.code_key, artifact="", runtime=spec.runtime)).code_dir
    installation = find_installation(code_dir, spec)
    if installation is None:
        return ""
    return installation.key if material.deps_dir(installation.key).is_dir() else None
