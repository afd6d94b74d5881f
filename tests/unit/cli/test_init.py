"""`sless init` creates a folder that can be tested, served and deployed unchanged."""

from pathlib import Path

import pytest

from sless.cli import main
from sless.cli.init import TEMPLATES
from sless.client.packing import list_files
from sless.domain.runtimes import RUNTIMES


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_runtime_has_a_template():
    assert TEMPLATES.keys() == RUNTIMES.keys()


@pytest.mark.parametrize(
    ("runtime", "sent"),
    [
        ("python3.11", ["handler.py", "requirements.txt"]),
        ("nodejs20", ["handler.mjs", "package.json"]),
        ("go1.23", ["go.mod", "handler.go"]),
    ],
)
def test_the_folder_has_the_given_name_and_its_tests_are_not_uploaded(runtime, sent, tmp_path, capsys):
    assert main(["init", "shop", "--runtime", runtime]) == 0
    assert list_files(tmp_path / "shop") == sent, "the test is not uploaded"
    texts = {path.name: path.read_text() for path in (tmp_path / "shop").iterdir()}
    assert not any(TEMPLATES[runtime] in text for text in texts.values()), "the template's name is replaced"
    assert any("test" in name for name in texts)
    shown = capsys.readouterr().out
    assert "sless dev shop\n" in shown
    assert "sless deploy shop shop\n" in shown


def test_an_empty_folder_is_fine(tmp_path):
    (tmp_path / "shop").mkdir()
    assert main(["init", "shop"]) == 0
    assert (tmp_path / "shop" / "handler.py").is_file()


@pytest.mark.parametrize("found", ["notes.txt", ".hidden"])
def test_a_folder_that_is_not_empty_is_left_alone(found, tmp_path, capsys):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / found).write_text("mine")
    assert main(["init", "shop"]) == 1
    assert capsys.readouterr().err == f"Error: shop: expected nothing or an empty folder, found {found} in it\n"
    assert [path.name for path in (tmp_path / "shop").iterdir()] == [found]


def test_a_file_of_that_name_is_left_alone(tmp_path, capsys):
    (tmp_path / "shop").write_text("mine")
    assert main(["init", "shop"]) == 1
    assert "found a file" in capsys.readouterr().err
    assert (tmp_path / "shop").read_text() == "mine"


@pytest.mark.parametrize("name", ["Shop", "../shop", "a b", "admin", "shop-"])
def test_invalid_names(name, tmp_path, capsys):
    assert main(["init", name]) == 2
    assert repr(name) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_runtime_lists_the_known_ones(tmp_path, capsys):
    assert main(["init", "shop", "--runtime", "ruby"]) == 2
    assert "nodejs20" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").symlink_to(tmp_path / "file" / "below")
    assert main(["init", "shop"]) == 1
    assert "shop" in capsys.readouterr().err
