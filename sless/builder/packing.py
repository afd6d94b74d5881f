"""Packs an upload from the code store into a build context on disk; large code in the child process `context_child`."""

import json
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sless import assets
from sless.builder.context_child import Order, answer_of
from sless.builder.failures import BuildFailed
from sless.builder.go_toolchain import tags_of
from sless.children import run_child
from sless.domain.ports import BuildSpec, CodeStore
from sless.domain.runtimes import RUNTIMES

CHILD_SEC = 300
SMALL_BYTES = 128 * 1024
"""Unpacked code up to this size is packed without a child process: that takes milliseconds, while starting a child takes 0.2 s of
processor time."""
SMALL_FILES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A packed upload. `form` is `code` (small code, which the runtime image unpacks) or `image` (a build context). `tool`, `manifest` and
    its text are for messages about a failed installer, `functions` (exported by the Go package) about a failed compiler."""

    form: str
    path: Path
    sha256: str
    size_bytes: int
    dockerfile: str = ""
    build_args: dict[str, str] = field(default_factory=dict)
    tool: str = ""
    manifest: str = ""
    manifest_text: str = ""
    functions: Sequence[str] = ()
    notes: Sequence[str] = ()
    """Lines for the build log."""


@contextmanager
def packed(code: CodeStore, spec: BuildSpec, image: str, *, small_bytes: int) -> Iterator[Context]:
    """The context of a build; its file is deleted at the end of the block. `image` is the runtime image. Code without dependencies up to
    `small_bytes` is not built (0: always built). Raises BuildFailed with a message for the user, SlessError, OSError."""
    folder = Path(tempfile.mkdtemp(prefix="sless-context-"))
    try:
        package = folder / "package.zip"
        with code.open(spec.code_key) as source, package.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        order = Order(
            package=str(package), folder=str(folder), runtime=spec.runtime, entrypoint=spec.entrypoint, image=image,
            small_bytes=small_bytes,
            runtimes=str(assets.runtimes_dir().absolute()), tags=tags_of(spec.build_env.get("GOFLAGS", "")),
        )  # fmt: skip
        yield Context(path=folder / "context.tar.gz", **_packed(order))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _packed(order: Order) -> dict[str, Any]:
    try:
        answer = answer_of(order) if _is_small(order) else _packed_by_child(order)
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"packing the code took more than {CHILD_SEC} s") from error
    except (ValueError, zipfile.BadZipFile) as error:
        raise OSError(f"packing the code failed: {error}") from error
    if "failed" in answer:
        raise BuildFailed(str(answer["failed"]))
    return answer


def _is_small(order: Order) -> bool:
    """Never true for Go, whose context contains the runtime. Raises zipfile.BadZipFile."""
    if RUNTIMES[order.runtime].language == "go":
        return False
    with zipfile.ZipFile(order.package) as archive:
        entries = archive.infolist()
    return len(entries) <= SMALL_FILES and sum(entry.file_size for entry in entries) <= SMALL_BYTES


def _packed_by_child(order: Order) -> dict[str, Any]:
    done = run_child("sless.builder.context_child", json.dumps(asdict(order)).encode(), CHILD_SEC)
    if done.returncode:
        raise OSError(f"packing the code failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
