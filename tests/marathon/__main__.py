"""Starts PostgreSQL and a server, applies examples/postgres with Terraform, and runs its marathon."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sless.terraform.install import cli_config, install
from sless.terraform.version import ADDRESS
from tests.services.postgres import PostgresServer
from tests.services.product import ROOT, running_product

EXAMPLE = ROOT / "examples" / "postgres"
APPLY_SEC = 900
TERRAFORM = shutil.which("terraform") or shutil.which("tofu") or ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", default="2")
    arguments = parser.parse_args()
    if not TERRAFORM:
        parser.error("expected terraform or tofu on PATH, found neither")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("GOCACHE", str(ROOT / "build" / "go-cache"))
    postgres = PostgresServer()
    try:
        postgres.start()
        with tempfile.TemporaryDirectory(prefix="sless-marathon-") as folder, running_product(Path(folder) / "server") as product:
            tenant = product.tenant("marathon")
            environ = os.environ | {"SLESS_ENDPOINT": product.url, "SLESS_API_TOKEN": tenant.token}
            apply(Path(folder), environ, postgres)
            command = [sys.executable, str(EXAMPLE / "marathon.py"), "--minutes", arguments.minutes]
            code = subprocess.run(command, env=environ, check=False).returncode
            tenant.leave()
            return code
    finally:
        postgres.stop()


def apply(folder: Path, environ: dict[str, str], postgres: PostgresServer) -> None:
    """Applies the example with the provider from a filesystem mirror, as users install it."""
    workspace = folder / "workspace"
    shutil.copytree(EXAMPLE, workspace)
    install(folder / "mirror", ADDRESS, None)
    (folder / "terraform.rc").write_text(cli_config(folder / "mirror", ADDRESS))
    environ = environ | {"TF_CLI_CONFIG_FILE": str(folder / "terraform.rc"), "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
    variables = ["-var", f"pghost={postgres.folder}"]
    for command in (["init", "-no-color"], ["apply", "-no-color", "-auto-approve", "-parallelism=30", *variables]):
        done = subprocess.run(
            [TERRAFORM, *command], cwd=workspace, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=APPLY_SEC
        )
        if done.returncode:
            sys.exit(f"{TERRAFORM} {command[0]} exited {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr}")
    print(f"terraform: {done.stdout[done.stdout.find('Apply complete') :].splitlines()[0]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
