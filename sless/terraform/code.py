"""The code of a resource: a folder, a zip or a single file, and the hash that shows whether it changed."""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf.types import Unknown

from sless.client import PackingError, pack_folder
from sless.client.packing import PackedFolder
from sless.terraform.failure import Failure
from sless.terraform.fields import Values

SOURCES = ("source_dir", "code_path")


@dataclass(frozen=True)
class PackedCode:
    """A zip and the hash of its files: of path, execute bit and content, so that times do not matter."""

    data: bytes
    hash: str


def source_of(values: Values) -> tuple[str, Any] | None:
    """(attribute, path or Unknown); None without code."""
    return next(((name, values[name]) for name in SOURCES if values.get(name) is not None), None)


def read_code(values: Values) -> PackedCode:
    """Raises Failure with the attribute that names the code."""
    found = source_of(values)
    assert found is not None
    attribute, text = found
    path = Path(text).expanduser()
    try:
        package = pack_folder(path) if attribute == "source_dir" or path.is_dir() else _package_of_file(path)
        return PackedCode(package.data, hash_of(package))
    except PackingError as error:
        raise Failure("Cannot read the code", str(error), (attribute,)) from error
    except OSError as error:
        raise Failure("Cannot read the code", f"{path}: {error.strerror}", (attribute,)) from error


def planned_hash(planned: Values, config: Values, prior: Values | None) -> Any:
    """The configured hash, or else that of the files; Unknown if the path is. Without code, the prior hash."""
    given = config.get("code_hash")
    if given is not None:
        return given
    found = source_of(planned)
    if found is None:
        return prior.get("code_hash") if prior else None
    return Unknown if found[1] is Unknown else read_code(planned).hash


def hash_of(package: PackedFolder) -> str:
    digest = hashlib.sha256()
    with zipfile.ZipFile(io.BytesIO(package.data)) as archive:
        for info in sorted((info for info in archive.infolist() if not info.is_dir()), key=lambda item: item.filename):
            executable = bool((info.external_attr >> 16) & 0o111)
            content = hashlib.sha256(archive.read(info)).hexdigest()
            digest.update(f"{info.filename}\0{int(executable)}\0{content}\n".encode())
    return digest.hexdigest()


def _package_of_file(path: Path) -> PackedFolder:
    """The package of a single file: a zip unchanged, any other file as the only one of the package."""
    if not path.exists():
        raise PackingError(f"{path}: expected a folder, a zip or a file with the code, found nothing")
    data = path.read_bytes()
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return PackedFolder(data=data, files=tuple(sorted(archive.namelist())))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(path.name), data)
    return PackedFolder(data=buffer.getvalue(), files=(path.name,))
