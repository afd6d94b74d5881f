"""Finds the dependencies of an upload in its manifests."""

import hashlib
import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from sless.domain.building import BuildSpec
from sless.domain.runtimes import RUNTIMES

REQUIREMENTS = "requirements.txt"
PACKAGE = "package.json"
LOCKS = ("npm-shrinkwrap.json", "package-lock.json")
_PYPROJECT = "pyproject.toml"
_UNREAD_PYTHON = (_PYPROJECT, "uv.lock", "poetry.lock", "Pipfile", "Pipfile.lock")
_UNREAD_NODE = ("pnpm-lock.yaml", "yarn.lock")
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_URL = re.compile(r"(git\+)?https?://\S+")
_NAME = re.compile(r"([A-Za-z0-9][\w.-]*) ?(\[[\w, .-]*\])? ?")
_ARCHIVE = re.compile(r"\.(whl|zip|tgz|tbz2?|txz|tlz|tar(\.\w+)?)$", re.IGNORECASE)
_HASH = re.compile(r"--hash=\w+:[0-9a-f]+")
_OPTION = re.compile(
    r"(-i|--index-url|--extra-index-url)[ =]https?://\S+|--trusted-host[ =][\w.:-]+|--(only-binary|no-binary)[ =][\w.,:-]+"
    r"|--(pre|prefer-binary|require-hashes|no-index)"
)
_PATH = re.compile(r"(file:|link:|[.~]{0,2}/|\.\.?$)|.*\.(tgz|tar(\.\w+)?)$")
_SETTINGS = ("PIP_", "NPM_CONFIG_", "npm_config_")
_HOOKS = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")


class WrongManifest(Exception):
    """A manifest cannot be read; the text is for users."""


class Tool(StrEnum):
    PIP = "pip"
    NPM_CI = "npm ci"
    NPM_INSTALL = "npm install"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`key` names the dependency folder: equal keys mean equal content. `file` is the manifest's path in the upload. `needs_code`: the
    installer needs the whole upload."""

    tool: Tool
    key: str
    file: str
    needs_code: bool

    @property
    def folder(self) -> str:
        """The folder of the manifest in the upload, "" for the top."""
        return self.file.rpartition("/")[0]


def find_installation(code_dir: Path, spec: BuildSpec) -> Installation | None:
    """None if there is nothing to install. Uses a manifest next to the entrypoint if the top has none. Raises WrongManifest."""
    match RUNTIMES[spec.runtime].language:
        case "python":
            found, manifest = _of_requirements, REQUIREMENTS
        case "node":
            found, manifest = _of_package, PACKAGE
        case _:
            return None
    beside = "/".join(spec.entrypoint.rpartition(".")[0].replace(".", "/").split("/")[:-1])
    place = beside if not (code_dir / manifest).is_file() and (code_dir / beside / manifest).is_file() else ""
    installation = found(code_dir / place, spec)
    if installation is None or not place:
        return installation
    if installation.needs_code and installation.tool is not Tool.PIP:
        raise WrongManifest(f"{place}/{installation.file} refers to files of the upload: move it to the top folder")
    return replace(installation, file=f"{place}/{installation.file}")


def decoded_of(raw: bytes) -> str:
    """A manifest as text: UTF-8, or UTF-16 with a byte order mark, as PowerShell writes it."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if raw.startswith(mark)), "utf-8")
    return raw.decode(encoding, "replace")


def text_of(raw: bytes) -> str:
    """A requirements file without byte order mark, CRLF, comments, blank lines, and space around lines."""
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in decoded_of(raw).splitlines())
    return "\n".join(line for line in lines if line)


def unread_notes_of(code_dir: Path, runtime: str) -> list[str]:
    """Lines for the build log about manifests that no installer reads."""
    others: tuple[str, ...]
    read_instead: tuple[str, ...]
    match RUNTIMES[runtime].language:
        case "python":
            others, read_instead = _UNREAD_PYTHON, (REQUIREMENTS,)
            advice = f"list the packages in {REQUIREMENTS}"
        case "node":
            others, read_instead = _UNREAD_NODE, LOCKS
            advice = f"npm takes the versions from {LOCKS[-1]}, else from {PACKAGE}"
        case _:
            return []
    notes = []
    if not any((code_dir / name).is_file() for name in read_instead):
        notes = [f"note: {name} is not read: {advice}" for name in others if _lists_packages(code_dir / name)]
    return notes


def _lists_packages(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.name != _PYPROJECT:
        return True
    try:
        project = tomllib.loads(path.read_text(errors="replace")).get("project")
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return isinstance(project, dict) and bool(project.get("dependencies"))


def _of_requirements(code_dir: Path, spec: BuildSpec) -> Installation | None:
    path = code_dir / REQUIREMENTS
    text = text_of(path.read_bytes()) if path.is_file() else ""
    if not text:
        return None
    lines = text.replace("\\\n", " ").splitlines()
    needs_code = not all(map(_is_from_index, lines)) or _names_files(code_dir, spec.build_env)
    return Installation(tool=Tool.PIP, key=_key_of(spec, [text], needs_code), file=REQUIREMENTS, needs_code=needs_code)


def _of_package(code_dir: Path, spec: BuildSpec) -> Installation | None:
    path = code_dir / PACKAGE
    if not path.is_file() or (code_dir / "node_modules").exists():
        return None
    package = _read_package(path)
    wanted = {field: _mapping_of(package, field) for field in ("dependencies", "optionalDependencies", "peerDependencies")}
    if not any(wanted.values()):
        return None
    lock = next((name for name in LOCKS if (code_dir / name).is_file()), None)
    lock_text = (code_dir / lock).read_text(errors="replace") if lock else ""
    hooks = [name for name in _HOOKS if name in _mapping_of(package, "scripts")]
    needs_code = bool(hooks or package.get("workspaces")) or _wants_files(package) or '"link": true' in lock_text
    needs_code = needs_code or _names_files(code_dir, spec.build_env)
    npmrc = code_dir / ".npmrc"
    parts = [json.dumps(package, sort_keys=True), lock_text, npmrc.read_text(errors="replace") if npmrc.is_file() else ""]
    tool = Tool.NPM_CI if lock else Tool.NPM_INSTALL
    return Installation(tool=tool, key=_key_of(spec, parts, needs_code), file=lock or PACKAGE, needs_code=needs_code)


def _is_from_index(line: str) -> bool:
    """Whether pip reads no file of the upload for this line. False for unknown forms, since what pip accepts as a path changes."""
    words = line.split()
    if line.startswith("-"):
        return _OPTION.fullmatch(" ".join(words)) is not None
    while words and _HASH.fullmatch(words[-1]):
        words.pop()
    wanted, _, marker = " ".join(words).partition(";")
    name = _NAME.match(wanted)
    if _URL.fullmatch(wanted.strip()):
        return True
    if name is None or _ARCHIVE.search(name[1]) or set("/\\$") & set(marker):
        return False
    rest = wanted[name.end() :].strip()
    if rest.startswith("@"):
        return _URL.fullmatch(rest[1:].strip()) is not None
    return not rest or (rest[0] in "(<>=!~" and not set("/\\$@") & set(rest) and "--" not in rest)


def _wants_files(package: dict[str, Any]) -> bool:
    """Whether a dependency of any kind is a path, since npm also resolves those that it does not install."""
    fields = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides")
    wanted = [value for field in fields for value in _mapping_of(package, field).values()]
    return any(not isinstance(value, str) or _PATH.match(value) for value in wanted)


def _names_files(code_dir: Path, build_env: dict[str, str]) -> bool:
    """Whether a setting of the installer, such as PIP_FIND_LINKS, names a file of the upload."""
    values = [value for name, value in build_env.items() if name.startswith(_SETTINGS)]
    return any(os.path.exists(code_dir / part.removeprefix("file:")) for value in values for part in value.split())


def _key_of(spec: BuildSpec, parts: list[str], needs_code: bool) -> str:
    """A hash of everything that the installer can read; without `needs_code`, it runs in a folder with only the manifests."""
    environment = json.dumps([spec.namespace, sorted(spec.build_env.items())]) if spec.build_env else ""
    scope = [environment, spec.code_key if needs_code else ""]
    return hashlib.sha256("\0".join([spec.runtime, *scope, *parts]).encode()).hexdigest()[:32]


def _read_package(path: Path) -> dict[str, Any]:
    try:
        package = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise WrongManifest(f"{PACKAGE} is not valid JSON: {error}") from error
    if not isinstance(package, dict):
        raise WrongManifest(f"{PACKAGE}: expected a JSON object, found {type(package).__name__}")
    return package


def _mapping_of(package: dict[str, Any], field: str) -> dict[str, Any]:
    value = package.get(field) or {}
    if not isinstance(value, dict):
        raise WrongManifest(f"{PACKAGE}: {field}: expected an object, found {type(value).__name__}")
    return value
