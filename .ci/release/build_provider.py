"""Builds dist/terraform-provider-sless_v<version>: the Terraform provider in one executable file.

    python .ci/release/build_provider.py [--output FOLDER] [--work build/provider]

Run it with an interpreter that has tests/requirements.txt installed, from which it copies the packages in .ci/release/provider.txt.
"""

import argparse
import shutil
import sys
from pathlib import Path

import build_zipapp
from build_zipapp import ROOT

sys.path.insert(0, str(ROOT))

from sless.terraform.version import VERSION

PACKAGES = ("client", "domain", "terraform")
"""Packages of sless to include besides its leaves."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder of the executable")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "provider", help="what is being packed")
    arguments = parser.parse_args()
    site = arguments.work / "site-packages"
    shutil.rmtree(site, ignore_errors=True)
    build_zipapp.copy_dependencies(site, ROOT / ".ci" / "release" / "provider.txt")
    build_zipapp.prune(site)
    _copy_own(site / "sless")
    arguments.output.mkdir(parents=True, exist_ok=True)
    output = arguments.output / f"terraform-provider-sless_v{VERSION}"
    build_zipapp.pack(site, output, "sless.terraform.main:main")
    print(f"{output}: {output.stat().st_size / 1024 / 1024:.1f} MB")


def _copy_own(target: Path) -> None:
    target.mkdir(parents=True)
    for path in (ROOT / "sless").glob("*.py"):
        shutil.copy(path, target)
    for name in PACKAGES:
        shutil.copytree(ROOT / "sless" / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    main()
