"""Packs a build context. Large code is packed in a child process, because unzipping and packing it would hold the interpreter lock for
longer than calls may wait: `main` reads one JSON order from stdin and writes one JSON object to stdout. Imports only the standard library
and a few of our own modules.
"""

import hashlib
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sless.builder.context import ImageRecipe, build_args_of, dockerfile_of, write_context
from sless.builder.dependencies import (
    LOCKS,
    PACKAGE,
    REQUIREMENTS,
    Installation,
    Tool,
    WrongManifest,
    decoded_of,
    find_installation,
    unread_notes_of,
)
from sless.builder.failures import BuildFailed
from sless.builder.go_constraints import left_out_notes_of
from sless.builder.go_sources import prepare
from sless.domain.building import BuildSpec
from sless.domain.code_archive import archive_of
from sless.domain.model import Kind
from sless.domain.runtimes import RUNTIMES
from sless.host import unzip

_MAX_TEXT_CHARS = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`package` is the zip of the upload, `folder` an empty working folder, `runtimes` the folder with the sources of the runtimes, `tags`
    Go's build tags. Code without dependencies is not built into an image up to `small_bytes` (packed)."""

    package: str
    folder: str
    runtime: str
    entrypoint: str
    image: str
    small_bytes: int
    runtimes: str
    tags: str = ""


def main() -> None:
    json.dump(answer_of(Order(**json.load(sys.stdin))), sys.stdout)


def answer_of(order: Order) -> dict[str, Any]:
    """See `make_context`; `failed`, a message for the user, if the build cannot succeed."""
    try:
        return make_context(order)
    except (BuildFailed, WrongManifest) as error:
        return {"failed": str(error)}


def make_context(order: Order) -> dict[str, Any]:
    """Writes `context.tar.gz` to the folder. `form` of the answer is `code` (small code, ready to unpack) or `image`."""
    folder = Path(order.folder)
    code, target = folder / "code", folder / "context.tar.gz"
    code.mkdir()
    unzip.unpack(order.package, str(code))
    compiled = RUNTIMES[order.runtime].language == "go"
    installation = None if compiled else find_installation(code, _spec_of(order))
    notes = left_out_notes_of(code, order.tags) if compiled else unread_notes_of(code, order.runtime)
    if order.small_bytes and not compiled and installation is None:
        with open(order.package, "rb") as package:
            target.write_bytes(archive := archive_of(package))
        if len(archive) <= order.small_bytes:
            return {"form": "code", "notes": notes, **_described(target)}
    functions: tuple[str, ...] = ()
    if compiled:
        recipe, functions = _go_recipe(order, code)
    else:
        recipe = _recipe_of(order, installation, code)
    runtime_dockerfile = Path(order.runtimes) / order.runtime / "Dockerfile"
    dockerfile = dockerfile_of(recipe, runtime_dockerfile.read_text() if compiled else "")
    write_context(target, dockerfile, code)
    text = decoded_of((code / installation.file).read_bytes())[:_MAX_TEXT_CHARS] if installation else ""
    return {
        "form": "image",
        "notes": notes,
        **_described(target),
        "dockerfile": dockerfile,
        "build_args": build_args_of(recipe),
        "tool": installation.tool.split()[0] if installation else "",
        "manifest": installation.file if installation else "",
        "manifest_text": text,
        "functions": functions,
    }


def _recipe_of(order: Order, installation: Installation | None, code: Path) -> ImageRecipe:
    if installation is None:
        return ImageRecipe(runtime=order.runtime, image=order.image)
    names = (REQUIREMENTS,) if installation.tool is Tool.PIP else (PACKAGE, *LOCKS, ".npmrc")
    place = f"{installation.folder}/" if installation.folder else ""
    manifests = tuple(place + name for name in names if (code / place / name).is_file())
    return ImageRecipe(
        runtime=order.runtime, image=order.image, tool=installation.tool, manifests=manifests, needs_code=installation.needs_code,
        folder=installation.folder,
    )  # fmt: skip


def _go_recipe(order: Order, code: Path) -> tuple[ImageRecipe, tuple[str, ...]]:
    """The recipe, and the functions that the entry package exports. Adds and changes files in `code`."""
    for name in ("node_modules", ".git"):
        shutil.rmtree(code / name, ignore_errors=True)
    for path in code.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
    prepared = prepare(code, order.entrypoint, Path(order.runtimes) / order.runtime)
    return ImageRecipe(runtime=order.runtime, image=order.image, vendored=prepared.vendored), prepared.functions


def _described(target: Path) -> dict[str, Any]:
    with target.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size_bytes": target.stat().st_size}


def _spec_of(order: Order) -> BuildSpec:
    """A BuildSpec with only the fields that `find_installation` needs, because the key of its result is not used here."""
    return BuildSpec(
        id="", workload_id="", namespace="", name="", kind=Kind.FUNCTION, version=0, runtime=order.runtime, entrypoint=order.entrypoint,
        code_key="", build_env={}, env={}, memory_mb=0,
    )  # fmt: skip
