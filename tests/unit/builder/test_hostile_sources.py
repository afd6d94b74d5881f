"""Sources that make a search with nested repetition take time that grows with the square of their size. Regular expressions hold the
interpreter lock, so one such upload would stop all calls."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sless.builder.dependencies import find_installation
from sless.builder.failures import BuildFailed
from sless.builder.go_constraints import left_out_reason_of
from sless.builder.go_sources import find_package_name, mod_with_runtime, module_path_of, package_sources_of
from tests.unit.builder.test_dependencies import spec

SIZE = 100_000
MOST_SEC = 4.0
"""Of processor time. Linear searches take milliseconds, the former ones 15 s or more."""


def _module(_: Path, text: str) -> object:
    with pytest.raises(BuildFailed):
        module_path_of(text)
    return None


def _language(_: Path, text: str) -> object:
    return mod_with_runtime(text, vendored=False)


def _source(read: Callable[[Path], object]) -> Callable[[Path, str], object]:
    def look(folder: Path, text: str) -> object:
        (folder / "a.go").write_text(text)
        return read(folder / "a.go")

    return look


def _requirements(folder: Path, text: str) -> object:
    (folder / "requirements.txt").write_text(text)
    return find_installation(folder, spec())


@pytest.mark.parametrize(
    ("look", "text"),
    [
        pytest.param(_requirements, "a" + " " * SIZE + "b", id="a requirement with spaces"),
        pytest.param(_module, "\n" * SIZE + "a", id="empty lines in go.mod"),
        pytest.param(_module, "/* " * SIZE, id="open comments in go.mod"),
        pytest.param(_language, "\n" * SIZE, id="empty lines without a version"),
        pytest.param(_language, "go 1." + "1" * SIZE + " x", id="a version without end"),
        pytest.param(_source(find_package_name), "/* " * SIZE, id="open comments in a source"),
        pytest.param(_source(left_out_reason_of), "\n" * SIZE, id="empty lines before the package"),
        pytest.param(_source(left_out_reason_of), "package a\n" + " \n" * SIZE, id="empty lines after the package"),
        pytest.param(_source(lambda path: package_sources_of(path.parent)), "//go:build" + " " * SIZE, id="a constraint of spaces"),
    ],
)
def test_reading_takes_time_in_proportion_to_the_size(tmp_path: Path, look, text):
    began = time.process_time()
    look(tmp_path, text)
    assert time.process_time() - began < MOST_SEC
