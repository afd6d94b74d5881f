from pathlib import Path

import pytest

from sless import assets

ROOT = Path(__file__).resolve().parents[2]


def test_folders_of_a_checkout_are_beside_the_package():
    assert assets.static_dir() == ROOT / "static"
    assert assets.runtimes_dir() == ROOT / "runtimes"
    assert assets.examples_dir() == ROOT / "examples"


def test_runtime_and_example_by_name():
    assert assets.runtime_dir("python3.11") == ROOT / "runtimes" / "python3.11"
    assert assets.example_dir("hello-python").is_dir()


@pytest.mark.parametrize("name", ["", "..", ".", "python3.11/..", "python2.7"])
def test_an_unknown_runtime_lists_the_known_ones(name: str):
    with pytest.raises(FileNotFoundError, match=r"no runtime .* only: .*python3\.11"):
        assets.runtime_dir(name)


def test_a_folder_inside_the_package_wins(tmp_path: Path):
    (tmp_path / "sless" / "static").mkdir(parents=True)
    (tmp_path / "static").mkdir()
    (tmp_path / "sless.py").touch()
    assert assets.folder_of("static", tmp_path / "sless") == tmp_path / "sless" / "static"


def test_a_folder_beside_an_installed_package_is_ignored(tmp_path: Path):
    (tmp_path / "sless").mkdir()
    (tmp_path / "static").mkdir()
    assert assets.folder_of("static", tmp_path / "sless") is None
