"""Finds syntax errors in uploaded code. Runs in the child: compiling hostile source can crash or exhaust memory."""

import csv
import json
import os
import shutil
import subprocess
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sless.domain.code_check import skipped_text

MAX_SOURCE_BYTES = 2 << 20
MAX_MISTAKES = 20
MAX_NODE_FILES = 500
NODE_SEC = 30
_SUFFIXES = {"python": (".py",), "node": (".js", ".mjs", ".cjs")}
VENDORED = frozenset({"node_modules", "site-packages", "vendor", "venv", ".venv", "lib2to3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxMistake:
    path: str
    line: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """`unparsed`: sentences about the user's own sources that were not parsed."""

    mistakes: list[SyntaxMistake]
    unparsed: list[str]


def parsed(archive: zipfile.ZipFile, language: str) -> Parsed:
    """One mistake per broken file, the first MAX_MISTAKES. Leaves out installed packages, some of which intentionally contain sources for
    another version of the language, and Go, because the build compiles all of it."""
    suffixes = _SUFFIXES.get(language, ())
    sources = [path for path in own_sources_of(archive) if suffixes and path.endswith(suffixes)]
    large = [path for path in sources if archive.getinfo(path).file_size > MAX_SOURCE_BYTES]
    sources = [path for path in sources if archive.getinfo(path).file_size <= MAX_SOURCE_BYTES]
    unparsed = [skipped_text(f"files over {MAX_SOURCE_BYTES >> 20} MB", large)] if large else []
    if language == "node":
        node = shutil.which("node")
        most = MAX_NODE_FILES if node else 0
        if left := sources[most:]:
            unparsed.append(skipped_text(f"more than {most} files" if node else "this server has no Node.js", left))
        mistakes = node_mistakes(archive, sources[:most], node or "")
    else:
        mistakes = python_mistakes(archive, sources)
    return Parsed(mistakes=list(islice(mistakes, MAX_MISTAKES)), unparsed=unparsed)


def own_sources_of(archive: zipfile.ZipFile) -> list[str]:
    installed: set[str] = set()
    names = archive.namelist()
    for name in names:
        if name.endswith(".dist-info/RECORD"):
            folder = name.rpartition("/")[0].rpartition("/")[0]
            rows = csv.reader(archive.read(name).decode("utf-8", "replace").splitlines())
            installed.update(f"{folder}/{row[0]}" if folder else row[0] for row in rows if row)
    return [name for name in names if name not in installed and not VENDORED.intersection(name.split("/")[:-1])]


def python_mistakes(archive: zipfile.ZipFile, paths: Iterable[str]) -> Iterator[SyntaxMistake]:
    for path in paths:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(archive.read(path), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            yield SyntaxMistake(path=path, line=error.lineno, message=str(error.msg))
        except (ValueError, UnicodeError) as error:
            yield SyntaxMistake(path=path, line=None, message=str(error))
        except (RecursionError, MemoryError, OverflowError):
            yield SyntaxMistake(path=path, line=None, message="is nested too deeply to be compiled")


# One process for all files, because each `node --check` takes 40 to 130 ms. It recognises modules in the same way as `node --check`.
_NODE_CHECK = r"""
const fs = require('fs'), path = require('path'), vm = require('vm'), { wrap } = require('module');
const typeOf = (folder) => {
  for (let at = folder; ; at = path.dirname(at)) {
    try { return JSON.parse(fs.readFileSync(path.join(at, 'package.json'), 'utf8')).type; } catch (error) { /* try the parent folder */ }
    if (at === '.') return undefined;
  }
};
const mistakes = [];
for (const file of JSON.parse(fs.readFileSync(0, 'utf8'))) {
  const source = fs.readFileSync(file, 'utf8').replace(/^\uFEFF/, '').replace(/^#!.*/, '');
  const esm = file.endsWith('.mjs') || (file.endsWith('.js') && typeOf(path.dirname(file)) === 'module');
  try {
    if (esm) new vm.SourceTextModule(source, { identifier: file });
    else new vm.Script(wrap(source), { filename: file });
  } catch (error) {
    // Only `node --check` gives the line of an error in a module.
    const output = esm ? require('child_process').spawnSync(process.execPath, ['--check', file]).stderr : error.stack;
    const line = new RegExp(':(\\d+)$').exec(String(output).split('\n')[0]);
    mistakes.push({ path: file, line: line ? Number(line[1]) : null, message: `${error.name}: ${error.message}` });
  }
}
process.stdout.write(JSON.stringify(mistakes));
"""


def node_mistakes(archive: zipfile.ZipFile, sources: Sequence[str], node: str) -> Iterator[SyntaxMistake]:
    if not sources:
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in {*sources, *(name for name in archive.namelist() if name.rpartition("/")[2] == "package.json")}:
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(path))
        done = subprocess.run(
            [node, "--no-warnings", "--experimental-vm-modules", "-e", _NODE_CHECK],
            input=json.dumps(sources).encode(), capture_output=True, cwd=folder, env={"PATH": os.defpath, "HOME": folder}, timeout=NODE_SEC,
            check=False,
        )  # fmt: skip
    if done.returncode != 0:
        yield SyntaxMistake(path=sources[0], line=None, message="node could not check it: " + done.stderr.decode("utf-8", "replace")[-300:])
        return
    for item in json.loads(done.stdout):
        yield SyntaxMistake(path=item["path"], line=item["line"], message=_hinted(item["message"]))


def _hinted(message: str) -> str:
    if "outside a module" in message or "Unexpected token 'export'" in message:
        return message + ' (for import and export name the file .mjs, or set "type": "module" in package.json)'
    return message
