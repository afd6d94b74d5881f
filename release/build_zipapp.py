"""Builds dist/sless.pyz: sless with everything it needs in one file, for a machine that has Python 3.11 and nothing else.

    python release/build_zipapp.py [--output dist/sless.pyz] [--work build/zipapp]

Run with an interpreter that has release/requirements.txt installed. What requirements.txt names is installed once into the work folder
and reused until that file changes; sless itself is installed anew each time.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.txt"
MAIN = Path(__file__).with_name("zipapp_main.py")
SIZE_LIMIT_BYTES = 30 * 1024 * 1024

# botocore describes some 400 services; sless talks to these two.
BOTOCORE_SERVICES = {"s3", "sts"}
# Never read at run time: stubs, sources of compiled modules, tests, Windows launchers of pip's script writer, libraries' own examples.
DROPPED_SUFFIXES = {".pyi", ".pyx", ".pxd", ".c", ".h", ".exe", ".pyc"}
DROPPED_FOLDERS = {"tests", "test", "testing", "__pycache__"}
OWN = Path("sless")


def main() -> None:
    arguments = _arguments()
    site = arguments.work / "site-packages"
    dependencies = _installed_dependencies(arguments.work)
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(dependencies, site)
    _pip("install", "--no-deps", "--no-build-isolation", "--target", str(site), str(_clean_source(arguments.work)))
    prune(site)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    _pack(site, arguments.output)
    size_bytes = arguments.output.stat().st_size
    print(f"{arguments.output}: {size_bytes / 1024 / 1024:.1f} MB")
    if size_bytes > SIZE_LIMIT_BYTES:
        sys.exit(f"{arguments.output} is larger than {SIZE_LIMIT_BYTES // 1024 // 1024} MB: see what `unzip -v` lists and prune it")


def prune(site: Path) -> None:
    """Drops from an installed tree what nothing reads at run time. Never touches sless itself."""
    for path in sorted(site.rglob("*"), reverse=True):
        relative = path.relative_to(site)
        if not _is_dropped(relative, path.is_dir()):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_dropped(relative: Path, is_dir: bool) -> bool:
    if relative.name == "__pycache__":
        return is_dir
    if OWN in (relative, *relative.parents):
        return False
    if is_dir:
        return _is_other_service(relative) or relative.name in DROPPED_FOLDERS or relative == Path("bin")
    return relative.suffix in DROPPED_SUFFIXES


def _is_other_service(relative: Path) -> bool:
    return relative.parent == Path("botocore/data") and relative.name not in BOTOCORE_SERVICES


def _installed_dependencies(work: Path) -> Path:
    """The folder with requirements.txt installed, made once for each content of that file."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    folder = work / f"dependencies-{digest}"
    if not folder.exists():
        for old in work.glob("dependencies-*"):
            shutil.rmtree(old)
        partial = work / "dependencies.partial"
        shutil.rmtree(partial, ignore_errors=True)
        _pip("install", "--requirement", str(LOCK), "--target", str(partial))
        prune(partial)
        partial.rename(folder)
    return folder


def _clean_source(work: Path) -> Path:
    """A copy to build from: setuptools writes into the tree it builds and would take up leftovers of earlier builds."""
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("sless", "static", "runtimes", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    return source


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", *arguments, "--no-compile"]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})


def _pack(site: Path, output: Path) -> None:
    packed = output.with_suffix(".part")
    # shiv reads `sless.cli:main` as the module sless.cli.main, which has the function of that name.
    command = [sys.executable, "-m", "shiv", "--site-packages", str(site), "--entry-point", "sless.cli.main:main"]
    # No --compile-pyc: to compile all libraries takes 10 s at the first start, what is imported compiles itself in 2 and stays compiled.
    command += ["--python", "/usr/bin/env python3", "--reproducible", "--output-file", str(packed)]
    subprocess.run(command, check=True)
    _replace_main(packed, output)
    packed.unlink()


def _replace_main(packed: Path, output: Path) -> None:
    """shiv's preamble runs only after shiv has unpacked everything; ours has to speak up before, so it takes the place of __main__."""
    text = MAIN.read_text(encoding="utf-8").replace("@MACHINE@", platform.machine())
    partial = output.with_suffix(".new")
    with zipfile.ZipFile(packed) as old, partial.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
            for info in old.infolist():
                new.writestr(info, text.encode() if info.filename == "__main__.py" else old.read(info))
    partial.chmod(0o755)
    partial.replace(output)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "sless.pyz")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "zipapp", help="kept between builds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
