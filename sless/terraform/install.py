"""Installs the provider's executable in a filesystem mirror, with the CLI configuration that makes Terraform use it.

Mirror: `FOLDER/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/terraform-provider-TYPE_vVERSION`.
"""

import platform
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from sless.terraform.version import VERSION

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
ADDRESS = re.compile(r"([A-Za-z0-9.:-]+)/([A-Za-z0-9_-]+)/([A-Za-z0-9_-]+)")
DEFAULT_HOSTS = ("registry.terraform.io", "registry.opentofu.org")
"""Default registries of Terraform and OpenTofu. The provider is installed for both."""
LAUNCHER = """#!{python}
import sys

sys.path.insert(0, {root!r})

from sless.terraform.main import main

sys.exit(main())
"""


class InstallError(Exception):
    """The provider cannot be installed; the text says why."""


def install(folder: Path, address: str, executable: Path | None) -> Path:
    """The installed file: a copy of `executable`, or, without one, a program that starts the provider with this interpreter."""
    targets = [_target_of(folder, name) for name in addresses_of(address)]
    for target in targets:
        _write(target, executable)
    return targets[0]


def addresses_of(address: str) -> list[str]:
    """The address, and that of the other tool (Terraform or OpenTofu) if its host is their default."""
    host, _, name = address.partition("/")
    return [address, *(f"{other}/{name}" for other in DEFAULT_HOSTS if host in DEFAULT_HOSTS and other != host)]


def _target_of(folder: Path, address: str) -> Path:
    parts = ADDRESS.fullmatch(address)
    if not parts:
        raise InstallError(f"expected an address such as registry.terraform.io/sless/sless, found {address!r}")
    machine = MACHINES.get(platform.machine(), platform.machine())
    return folder.joinpath(*parts.groups(), VERSION, f"{sys.platform}_{machine}", f"terraform-provider-{parts[3]}_v{VERSION}")


def _write(target: Path, executable: Path | None) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if executable is not None:
            shutil.copyfile(executable, target)
        else:
            target.write_text(_launcher(), encoding="utf-8")
        target.chmod(0o755)
    except OSError as error:
        raise InstallError(f"{error.filename or target}: cannot be written: {error.strerror}") from error


def cli_config(folder: Path, address: str) -> str:
    """Lines for ~/.terraformrc: this provider comes from the mirror, all others from their registries."""
    names = ", ".join(f'"{name}"' for name in addresses_of(address))
    return (
        "provider_installation {\n"
        f'  filesystem_mirror {{\n    path    = "{folder}"\n    include = [{names}]\n  }}\n'
        f"  direct {{\n    exclude = [{names}]\n  }}\n"
        "}\n"
    )


def _launcher() -> str:
    if find_spec("tf") is None:
        raise InstallError(
            "the provider's library is not installed: pip install 'sless[terraform]', or give the file that `make provider` builds"
        )
    return LAUNCHER.format(python=sys.executable, root=str(Path(__file__).resolve().parents[2]))
