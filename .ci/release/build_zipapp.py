"""Builds dist/sless.pyz: sless with everything it needs in one file, for a machine that only has Python 3.11.

    python .ci/release/build_zipapp.py [--output dist/sless.pyz] [--work build/zipapp]

Run it with an interpreter that has requirements.txt and .ci/release/requirements.txt installed; it copies the packages of the first one.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.txt"
MAIN = Path(__file__).with_name("zipapp_main.py")
SIZE_LIMIT_BYTES = 30 * 1024 * 1024

# botocore describes some 400 services; sless uses these two.
BOTOCORE_SERVICES = {"s3", "sts"}
# Never read at run time: stubs, sources of compiled modules, tests, Windows launchers of pip's script writer.
DROPPED_SUFFIXES = {".pyi", ".pyx", ".pxd", ".c", ".h", ".exe", ".pyc"}
DROPPED_FOLDERS = {"tests", "test", "testing", "__pycache__"}
# Dependencies of bandit for coloured reports, which sless never prints.
LEXERS = Path("pygments/lexers")
KEPT_LEXERS = {"__init__.py", "_mapping.py"}
OWN = Path("sless")


def main() -> None:
    arguments = _arguments()
    site = arguments.work / "site-packages"
    shutil.rmtree(site, ignore_errors=True)
    copy_dependencies(site, LOCK)
    _pip("install", "--no-deps", "--no-build-isolation", "--target", str(site), str(_clean_source(arguments.work)))
    prune(site)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    # Not `sless.cli:run`, because shiv would read the first part as a module's name.
    pack(site, arguments.output, "sless.cli.main:run")
    size_bytes = arguments.output.stat().st_size
    print(f"{arguments.output}: {size_bytes / 1024 / 1024:.1f} MB")
    if size_bytes > SIZE_LIMIT_BYTES:
        sys.exit(f"{arguments.output} is larger than {SIZE_LIMIT_BYTES // 1024 // 1024} MB: see what `unzip -v` lists and prune it")


def prune(site: Path) -> None:
    """Drops files from an installed tree that are never read at run time. Leaves sless itself unchanged."""
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
        return _is_other_service(relative) or relative.name in DROPPED_FOLDERS
    if relative.parent == LEXERS and relative.name not in KEPT_LEXERS:
        return True
    # pip records the source of the installation, a path of this machine.
    return relative.suffix in DROPPED_SUFFIXES or relative.name == "direct_url.json"


def _is_other_service(relative: Path) -> bool:
    return relative.parent == Path("botocore/data") and relative.name not in BOTOCORE_SERVICES


def copy_dependencies(site: Path, lock: Path) -> None:
    """Copies the files of each distribution in the lock, in the version of the lock, from this interpreter's environment."""
    for name, version in re.findall(r"^([a-z0-9.-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE):
        found = metadata.distribution(name)
        if found.version != version:
            sys.exit(f"{name} {found.version} is installed, {lock.name} names {version}: make venv")
        for file in found.files or ():
            # Skip scripts, which are outside (`../../../bin/…`): the zipapp has a single command.
            if ".." not in file.parts and file.suffix != ".pyc":
                target = site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), target)


def _clean_source(work: Path) -> Path:
    """A copy to build from, because setuptools writes into the tree that it builds and would include leftovers of earlier builds."""
    source = work / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignore = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("sless", "static", "runtimes", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    return source


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", *arguments, "--no-compile"]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})


def pack(site: Path, output: Path, entry_point: str) -> None:
    packed = output.with_suffix(".part")
    command = [sys.executable, "-m", "shiv", "--site-packages", str(site), "--entry-point", entry_point]
    # No --compile-pyc: compiling all libraries takes 10 s at the first start, while imported modules take 2 s and stay compiled.
    # Compress it below, where every entry is written again.
    command += ["--uncompressed", "--python", "/usr/bin/env python3", "--reproducible", "--output-file", str(packed)]
    subprocess.run(command, check=True)
    _replace_main(packed, output)
    packed.unlink()


def _replace_main(packed: Path, output: Path) -> None:
    """Replaces __main__ with our own, which has to check the interpreter before shiv unpacks everything; shiv's preamble runs
    afterwards."""
    text = MAIN.read_text(encoding="utf-8").replace("@MACHINE@", platform.machine())
    partial = output.with_suffix(".new")
    with zipfile.ZipFile(packed) as old, partial.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w") as new:
            for info in old.infolist():
                content = text.encode() if info.filename == "__main__.py" else old.read(info)
                new.writestr(info, content, compress_type=zipfile.ZIP_DEFLATED)
    partial.chmod(0o755)
    partial.replace(output)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "sless.pyz")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "zipapp", help="what is being packed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
