"""Completes a copy of an upload to a Go program: adds the necessary files next to the user's own."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sless.builder.failures import BuildFailed

RUNTIME_MODULE = "sless.internal/runtime"
MAIN_FOLDER = "sless_entry_main"
RUNTIME_FOLDER = "sless_runtime"
DEFAULT_MODULE = "function"
_RUNTIME_PARTS = ("", "early")
EARLY_FILE = "sless_early.go"
_LEAST_LANGUAGE = (1, 18)
_PACKAGE = re.compile(r"^[ \t\ufeff]*package[ \t]+(\w+)", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_LEFT_OUT = re.compile(r"^//[ \t]*(go:build|\+build)[ \t](.*[ \t])?ignore\b", re.MULTILINE)
_FUNCTION = re.compile(r"^func[ \t]+([A-Z]\w*)[ \t]*[\[(]", re.MULTILINE)
_MODULE = re.compile(r"^[ \t]*module[ \t]+[\"`]?([^\s\"`]+)", re.MULTILINE)
_LANGUAGE = re.compile(r"^[ \t]*go[ \t]+(\d+)\.(\d+)(?!\d)\S*\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSources:
    """`vendored`: the modules come from the upload's vendor folder. `functions`: the exported functions of the entry package."""

    vendored: bool
    functions: tuple[str, ...]


def prepare(code: Path, entrypoint: str, runtime_dir: Path) -> PreparedSources:
    """Completes `code`, a copy of the upload, to a program. Raises BuildFailed with a message for the user."""
    module, _, function = entrypoint.rpartition(".")
    if not module or not function[:1].isupper():
        found = f'found "{function}"' if module else "found no module"
        raise BuildFailed(
            f"entrypoint {entrypoint}: expected module.function, the function with a capital letter as Go exports it, {found}"
        )
    folder = code / Path(module).parent
    sources = package_sources_of(folder)
    if not sources:
        raise BuildFailed(f"entrypoint {entrypoint}: expected a .go file in {_shown(code, folder)}, found none")
    for name in (MAIN_FOLDER, RUNTIME_FOLDER):
        if (code / name).exists():
            raise BuildFailed(f"{name}: the build uses this name in the top folder; rename yours")
    mod = code / "go.mod"
    text = mod.read_text(encoding="utf-8", errors="replace") if mod.is_file() else f"module {DEFAULT_MODULE}\n\ngo 1.23\n"
    vendored = (code / "vendor" / "modules.txt").is_file()
    mod.write_text(mod_with_runtime(text, vendored=vendored), encoding="utf-8")
    if vendored:
        _vendor_runtime(code / "vendor", runtime_dir)
    else:
        _copy_runtime(runtime_dir, code / RUNTIME_FOLDER)
        shutil.copyfile(runtime_dir / "go.mod", code / RUNTIME_FOLDER / "go.mod")
    _make_importable(folder, sources)
    for package in _packages_of(code):
        _add_early(package)
    path = "/".join([module_path_of(text), *folder.relative_to(code).parts])
    (code / MAIN_FOLDER).mkdir()
    (code / MAIN_FOLDER / "main.go").write_text(main_of(path, function), encoding="utf-8")
    functions = sorted({name for source in sources for name in _FUNCTION.findall(source.read_text(errors="replace"))})
    return PreparedSources(vendored=vendored, functions=tuple(functions))


def main_of(package_path: str, function: str) -> str:
    return (
        "package main\n\nimport (\n"
        f'\t"{RUNTIME_MODULE}"\n\n\tentry {json.dumps(package_path)}\n)\n\nfunc main() {{ runtime.Main(entry.{function}) }}\n'
    )


def module_path_of(mod_text: str) -> str:
    found = _MODULE.search(_COMMENT.sub("", mod_text))
    if found is None:
        raise BuildFailed("go.mod: expected a line `module PATH`, found none")
    return found[1]


def mod_with_runtime(text: str, *, vendored: bool) -> str:
    """go.mod with the runtime as a requirement, either vendored or replaced by a folder. The runtime declares a low language version, so
    that the user's stays as it is; only a go.mod from before Go 1.18 is raised to 1.18."""
    language = _LANGUAGE.search(text)
    if language is None:
        text += f"\ngo {_version_text(_LEAST_LANGUAGE)}\n"
    elif (int(language[1]), int(language[2])) < _LEAST_LANGUAGE:
        text = text[: language.start()] + f"\ngo {_version_text(_LEAST_LANGUAGE)}" + text[language.end() :]
    text += f"\nrequire {RUNTIME_MODULE} v0.0.0\n"
    if not vendored:
        text += f"\nreplace {RUNTIME_MODULE} => ./{RUNTIME_FOLDER}\n"
    return text


def package_sources_of(folder: Path) -> list[Path]:
    """The .go files of the package in a folder, without tests and files with the build constraint `ignore`."""
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.suffix == ".go" and path.is_file())
    return [
        path
        for path in files
        if not path.name.endswith("_test.go")
        and path.name[0] not in "._"
        and not _LEFT_OUT.search(path.read_text(encoding="utf-8", errors="replace"))
    ]


def find_package_name(source: Path) -> str | None:
    found = _find_package_clause(source.read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else None


def head_of(source: Path) -> str:
    """The text up to the package clause; it contains the build constraints."""
    text = source.read_text(encoding="utf-8", errors="replace")
    found = _find_package_clause(text)
    return text[: found.end()] if found else text


def _make_importable(folder: Path, sources: list[Path]) -> None:
    """Renames package main, which cannot be imported; its func main becomes an ordinary function."""
    for source in sources:
        if find_package_name(source) != "main":
            continue
        text = source.read_text(encoding="utf-8", errors="replace")
        place = _find_package_clause(text)
        assert place is not None
        source.write_text(text[: place.start(1)] + "handler" + text[place.end(1) :], encoding="utf-8")


def _find_package_clause(text: str) -> re.Match[str] | None:
    return _PACKAGE.search(_COMMENT.sub(_blank, text))


def _blank(comment: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", comment[0])


def _packages_of(code: Path) -> list[Path]:
    """Folders that belong to the upload's own module."""
    folders = [code]
    for folder in folders:
        for path in sorted(folder.iterdir()):
            own = path.name[0] not in "._" and path.name not in ("vendor", "testdata", "node_modules", MAIN_FOLDER, RUNTIME_FOLDER)
            if own and path.is_dir() and not path.is_symlink() and not (path / "go.mod").exists():
                folders.append(path)
    return folders


def _add_early(folder: Path) -> None:
    """Imports the runtime's package `early` in each package. Go initialises imports first, so output and environment are ready before the
    user's init functions run."""
    sources = package_sources_of(folder)
    name = next((found for source in sources if (found := find_package_name(source))), None)
    if name is not None:
        (folder / EARLY_FILE).write_text(f'package {name}\n\nimport _ "{RUNTIME_MODULE}/early"\n', encoding="utf-8")


def _copy_runtime(runtime_dir: Path, folder: Path) -> None:
    """Copies the runtime, because the program contains the path of a replaced module."""
    for part in _RUNTIME_PARTS:
        (folder / part).mkdir(parents=True, exist_ok=True)
        for source in sorted((runtime_dir / part).glob("*.go")):
            shutil.copyfile(source, folder / part / source.name)


def _vendor_runtime(vendor: Path, runtime_dir: Path) -> None:
    _copy_runtime(runtime_dir, vendor / RUNTIME_MODULE)
    packages = (f"{RUNTIME_MODULE}/{part}".rstrip("/") for part in _RUNTIME_PARTS)
    listed = [f"# {RUNTIME_MODULE} v0.0.0", f"## explicit; go {_version_text(_LEAST_LANGUAGE)}", *packages]
    modules = vendor / "modules.txt"
    text = modules.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    modules.write_text("\n".join([*([text] if text else []), *listed, ""]), encoding="utf-8")


def _version_text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _shown(code: Path, folder: Path) -> str:
    inside = folder.relative_to(code)
    return "the top folder" if inside == Path() else str(inside)
