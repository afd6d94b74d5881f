"""Parses the output of `go build -n` into commands that can be replayed: the compilation of each package of the upload, and the link."""

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_WORK = "$WORK"
_FILE = re.compile(r"^cat >(\S+) << 'EOF' # internal\n(.*?)EOF\n", re.MULTILINE | re.DOTALL)
"""The end mark directly follows a text without a final newline, which go prints as it is."""
_DULL = re.compile(r"(#|mkdir -p |mv |rm -rf |cd |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPackage:
    """Compiles one package to the file `archive`. `files` are its sources, relative to the code; `config` lists what it may import."""

    archive: str
    argv: tuple[str, ...]
    files: tuple[str, ...]
    config: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`code` is the folder that the commands name and run in. Packages follow those that they import, so the main package is last.
    `configs`: files that the commands read → content."""

    code: str
    packages: tuple[GoPackage, ...]
    link: tuple[str, ...]
    configs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFolders:
    """Folders of one replay: the code, temporary files in `work`, and archives that later replays reuse."""

    code: Path
    work: Path
    archives: Path
    program: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySteps:
    """`script` runs in a shell in the code's folder and needs `files` (path → content). `made`: compiled packages → where to move them
    afterwards; `archives`: those and all others in use."""

    script: str
    files: dict[Path, str]
    made: dict[Path, Path]
    archives: tuple[Path, ...]


def find_recipe(printed: str, code: Path) -> Recipe | None:
    """None if there are commands other than the compiler and the linker (assembly, C), or the output is not as expected."""
    try:
        return _recipe_of(printed, code)
    except ValueError:
        return None


def _recipe_of(printed: str, code: Path) -> Recipe | None:
    configs = {found[1]: found[2] for found in _FILE.finditer(printed)}
    packages: list[GoPackage] = []
    links: list[tuple[str, ...]] = []
    for line in _FILE.sub("", printed).splitlines():
        if _DULL.match(line):
            continue
        argv = tuple(shlex.split(line))
        match Path(next((part for part in argv if part.startswith("/")), "")).name:
            case "compile":
                packages.append(_package_of(argv, configs))
            case "link":
                links.append(argv)
            case "buildid":  # For go's own cache.
                continue
            case _:
                return None
    if len(links) != 1 or not packages or links[0][-1] != packages[-1].archive or not all(package.files for package in packages):
        return None
    return Recipe(code=str(code), packages=tuple(packages), link=links[0], configs=configs)


def steps_of(recipe: Recipe, contents: Mapping[str, str], place: ReplayFolders) -> ReplaySteps:
    """Skips packages whose archive exists. The name of an archive is a hash of its inputs: the digests of its files (from `contents`), and
    the names of the archives that it imports from the upload."""
    archives: dict[str, Path] = {}
    made: dict[Path, Path] = {}
    now: dict[str, Path] = {}

    def placed(text: str) -> str:
        for name, path in now.items():
            text = text.replace(name, str(path))
        return text.replace(recipe.code, str(place.code)).replace(_WORK, str(place.work))

    lines = ["set -e"]
    for package in recipe.packages:
        imported = [str(path) for name, path in archives.items() if name in package.config]
        parts = (*package.argv, package.config, *(contents[file] for file in package.files), *imported)
        path = archives[package.archive] = place.archives / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}.a"
        now[package.archive] = path if path.exists() else place.work / path.name
        if now[package.archive] != path:
            made[now[package.archive]] = path
            lines.append(shlex.join(map(placed, package.argv)))
    output = _option(recipe.link, "-o")
    lines.append(shlex.join([str(place.program) if part == output else placed(part) for part in recipe.link]))
    files = {Path(placed(name)): placed(text) for name, text in recipe.configs.items()}
    return ReplaySteps(script="\n".join(lines), files=files, made=made, archives=tuple(archives.values()))


def _option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1] if name in argv[:-1] else ""


def _package_of(argv: tuple[str, ...], configs: dict[str, str]) -> GoPackage:
    files = argv[argv.index("-pack") + 1 :] if "-pack" in argv else ()
    config = configs.get(_option(argv, "-importcfg"), "")
    return GoPackage(archive=_option(argv, "-o"), argv=argv, files=tuple(file.removeprefix("./") for file in files), config=config)
