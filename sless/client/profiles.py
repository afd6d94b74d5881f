"""Determines the server's URL and the token: from options, then the environment, then the profile file.

The file is TOML with mode 0600:

    current = "work"

    [profiles.work]
    url = "https://functions.example.com"
    token = "eyJ…"
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_URL = "http://127.0.0.1:9090"
DEFAULT_NAME = "default"


class ProfileError(Exception):
    """The profile file or a profile is wrong; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An empty `namespace` is the caller's own."""

    url: str = ""
    token: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    current: str
    profiles: dict[str, Profile]


def file_of(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(base) / "sless" / "config.toml"


def read_file(path: Path) -> ProfileFile:
    """A missing file counts as empty."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ProfileFile(current=DEFAULT_NAME, profiles={})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"cannot read the profile file {path}: {error}") from error
    tables = data.get("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ProfileError(f"{path}: expected tables [profiles.NAME]")
    names = {item.name for item in fields(Profile)}
    profiles = {name: Profile(**{key: str(value) for key, value in table.items() if key in names}) for name, table in tables.items()}
    return ProfileFile(current=str(data.get("current", DEFAULT_NAME)), profiles=profiles)


def save_profile(path: Path, name: str, profile: Profile) -> None:
    """Adds or replaces the profile and makes it current."""
    old = read_file(path)
    text = _text_of(ProfileFile(current=name, profiles=old.profiles | {name: profile}))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp creates the file with mode 0600, so the token is never readable by others.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise ProfileError(f"cannot write {path}: {error.strerror}") from error


def resolve(given: Profile, profile_name: str, environ: Mapping[str, str]) -> Profile:
    """`given` holds the options, empty if not given. A profile selected by name must exist."""
    path = file_of(environ)
    name = profile_name or environ.get("SLESS_PROFILE", "")
    stored = read_file(path)
    if name and name not in stored.profiles:
        known = ", ".join(sorted(stored.profiles)) or "none"
        raise ProfileError(f'no profile "{name}" in {path}, only: {known}; `sless login --profile {name}` creates it')
    # A profile selected by an option takes precedence over the environment.
    environment = Profile() if profile_name else Profile(url=environ.get("SLESS_URL", ""), token=environ.get("SLESS_TOKEN", ""))
    base = stored.profiles.get(name or stored.current, Profile())
    wanted_url = given.url or environment.url
    if wanted_url and wanted_url.rstrip("/") != base.url.rstrip("/"):
        # Never send one server's token to another.
        base = replace(base, token="", namespace="")
    found = _over(given, _over(environment, base))
    return replace(found, url=found.url or DEFAULT_URL)


def _over(first: Profile, second: Profile) -> Profile:
    return Profile(**{item.name: getattr(first, item.name) or getattr(second, item.name) for item in fields(Profile)})


def _text_of(file: ProfileFile) -> str:
    lines = [f"current = {_quoted(file.current)}"]
    for name, profile in sorted(file.profiles.items()):
        lines += ["", f"[profiles.{_quoted(name)}]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in asdict(profile).items() if value]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML basic string: a JSON string with DEL escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
