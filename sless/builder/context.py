"""The build context for a builder in a cluster: a tar.gz with a Dockerfile and the upload in `code`.

Decisions. Base images are `ARG`s, so that a mirror can serve them. Dependencies are a layer below the code, unless the installer needs the
code. User 65532 executes every RUN, never root, because kaniko runs commands in its own container. The values of a build_env are in a file
that is mounted during the build (`ENV_FILE`) rather than in build arguments or variables of the image, so they do not appear in any layer,
history or log.
"""

import gzip
import io
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sless.builder.dependencies import Tool
from sless.builder.references import qualified_of
from sless.domain.runtimes import RUNTIMES

DOCKERFILE = "Dockerfile"
CODE = "code"
ENV_FOLDER = "/sless-build"
ENV_KEY = "env"
ENV_FILE = f"{ENV_FOLDER}/{ENV_KEY}"
USER = "65532:65532"
_LEVEL = 6
_INSTALL = {
    Tool.PIP: (
        "python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check --no-warn-script-location --no-color"
        " --progress-bar off --target /app/deps --requirement requirements.txt"
    ),
    Tool.NPM_CI: "npm ci --omit=dev --no-audit --no-fund --no-update-notifier --no-progress --cache /tmp/npm && rm -rf /tmp/npm",
    Tool.NPM_INSTALL: "npm install --omit=dev --no-audit --no-fund --no-update-notifier --no-progress --cache /tmp/npm && rm -rf /tmp/npm",
}
_WITH_ENV = f"if [ -f {ENV_FILE} ]; then . {ENV_FILE}; fi; "


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe:
    """How an upload becomes an image. `image` is the runtime image; `tool` is None if there is nothing to install; `manifests` are the
    files that the installer reads, `folder` is their folder in the upload, "" for the top; `needs_code`: the installer needs the whole
    upload; `vendored`: Go modules come from the upload."""

    runtime: str
    image: str
    tool: Tool | None = None
    manifests: tuple[str, ...] = ()
    needs_code: bool = False
    vendored: bool = False
    folder: str = ""


def dockerfile_of(recipe: ImageRecipe, go_dockerfile: str = "") -> str:
    """`go_dockerfile` is the text of the Go runtime's Dockerfile."""
    if RUNTIMES[recipe.runtime].language == "go":
        return go_dockerfile
    lines = [f"ARG RUNTIME_IMAGE={recipe.image}", "FROM ${RUNTIME_IMAGE}", f"USER {USER}", "WORKDIR /app/function"]
    if recipe.tool is not None:
        sources = [f"{CODE}/"] if recipe.needs_code else [f"{CODE}/{name}" for name in recipe.manifests]
        lines.append(f"COPY --chown={USER} {' '.join(sources)} /app/function/")
        enter = f"cd {shlex.quote(recipe.folder)} && " if recipe.folder and recipe.needs_code else ""
        lines.append(f"RUN {_WITH_ENV}{enter}{_INSTALL[recipe.tool]}")
    if not (recipe.tool and recipe.needs_code):
        lines.append(f"COPY {CODE}/ /app/function/")
    return "\n".join(lines) + "\n"


def build_args_of(recipe: ImageRecipe) -> dict[str, str]:
    image = qualified_of(recipe.image)
    if RUNTIMES[recipe.runtime].language == "go":
        return {"GO_IMAGE": image, "MOD": "vendor" if recipe.vendored else "mod"}
    return {"RUNTIME_IMAGE": image}


def env_file_of(values: Mapping[str, str]) -> str:
    """A shell script that exports these variables."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(values.items()))


def write_context(target: Path, dockerfile: str, code: Path) -> None:
    with _archive(target) as archive:
        info = tarfile.TarInfo(DOCKERFILE)
        text = dockerfile.encode()
        info.size, info.mode = len(text), 0o644
        archive.addfile(info, io.BytesIO(text))
        _add_tree(archive, code)


@contextmanager
def _archive(target: Path) -> Iterator[tarfile.TarFile]:
    """A reproducible tar.gz: equal content gives equal bytes."""
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        yield tar


def _add_tree(archive: tarfile.TarFile, folder: Path) -> None:
    for path in _files_of(folder):
        info = tarfile.TarInfo(f"{CODE}/{path.relative_to(folder).as_posix()}")
        if path.is_symlink():
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
            archive.addfile(info)
            continue
        status = path.stat()
        info.size, info.mode = status.st_size, 0o755 if status.st_mode & 0o111 else 0o644
        with path.open("rb") as content:
            archive.addfile(info, content)


def _files_of(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _files_of(path)
        else:
            yield path
