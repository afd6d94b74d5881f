"""`sless init`: create a folder from a template."""

import re
import shutil
from pathlib import Path

import click

from sless import assets
from sless.client.packing import PackingError
from sless.domain.runtimes import RUNTIMES
from sless.domain.schemas import NAME, NAME_PATTERN, RESERVED_NAMES

TEMPLATES = {"python3.11": "hello-python", "nodejs20": "hello-node", "go1.23": "hello-go"}
"""runtime → example. Its name is replaced with the new one in every file."""
TESTS = {"python": "python3 -m unittest", "node": "node --test", "go": "go test ./..."}
_NOT_COPIED = ("__pycache__", "node_modules", "*.pyc", "*.tf", "sum", "README.md")


@click.command()
@click.argument("name")
@click.option("--runtime", type=click.Choice(list(RUNTIMES)), default="python3.11", show_default=True, metavar="R", help="Runtime.")
def init(name: str, runtime: str) -> None:
    """Create a folder NAME with a first function.

    It has a handler, a test and a dependency file. Needs no server. The folder must be empty or not exist.

    \b
    Examples:
      sless init hello
      sless init api --runtime nodejs20
    """
    if not re.fullmatch(NAME_PATTERN, name) or name in RESERVED_NAMES:
        raise click.UsageError(f"NAME: expected {NAME['x-expected']}, found {name!r}")
    try:
        template = assets.example_dir(TEMPLATES[runtime])
    except FileNotFoundError as error:
        raise PackingError(f"no template for {runtime}: {error}") from error
    files = make_folder(Path(name), template, name)
    click.echo(f"Created {name}/ for {runtime}: {', '.join(files)}")
    click.echo("\nNext:")
    click.echo(f"  cd {name} && {TESTS[RUNTIMES[runtime].language]} && cd -")
    click.echo(f"  sless dev {name}")
    click.echo(f"  sless deploy {name} {name}")


def make_folder(folder: Path, template: Path, name: str) -> list[str]:
    """Copies the template; returns the paths of its files. Raises PackingError if the folder is not empty or the disk is full."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise PackingError(f"{folder}: expected nothing or an empty folder, found a file")
    if folder.is_dir() and (found := sorted(entry.name for entry in folder.iterdir())):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise PackingError(f"{folder}: expected nothing or an empty folder, found {found[0]}{more} in it")
    try:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns(*_NOT_COPIED), copy_function=shutil.copyfile, dirs_exist_ok=True)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in files:
            path.write_text(path.read_text(encoding="utf-8").replace(template.name, name), encoding="utf-8")
    except OSError as error:
        raise PackingError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return [path.relative_to(folder).as_posix() for path in files]
