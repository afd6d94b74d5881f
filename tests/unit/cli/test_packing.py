"""Packing a folder into a zip: contents, ignored files, and identical bytes each time."""

import io
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from sless.client import PackingError, pack_folder
from sless.client.guess import check_entrypoint, guess_runtime
from sless.client.packing import IgnoreRules
from tests.services import unavailable


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def test_bytes_do_not_depend_on_times_or_order(tmp_path):
    make(tmp_path / "one", "b.py", "a/c.py", "a/b.txt")
    make(tmp_path / "two", "a/b.txt", "a/c.py", "b.py")
    os.utime(tmp_path / "two" / "b.py", (1, 1))
    first, second = pack_folder(tmp_path / "one"), pack_folder(tmp_path / "two")
    assert first.data == second.data
    assert first.files == ("a/b.txt", "a/c.py", "b.py")


def test_execute_bits_are_kept(tmp_path):
    make(tmp_path, "run.sh", "plain.txt")
    (tmp_path / "run.sh").chmod(0o700)
    archive = zipfile.ZipFile(io.BytesIO(pack_folder(tmp_path).data))
    modes = {info.filename: (info.external_attr >> 16) & 0o777 for info in archive.infolist()}
    assert modes == {"run.sh": 0o755, "plain.txt": 0o644}


def test_files_that_are_never_code_are_left_out(tmp_path):
    make(tmp_path, "handler.py", ".git/HEAD", ".venv/bin/python", "pkg/__pycache__/x.pyc", ".DS_Store", "node_modules/a/index.js")
    assert pack_folder(tmp_path).files == ("handler.py",)


def test_env_files_are_left_out_with_a_notice(tmp_path):
    make(tmp_path, "handler.py", ".env", "pkg/a.py", "pkg/.env", "prod.env")
    packed = pack_folder(tmp_path)
    assert packed.files == ("handler.py", "pkg/a.py", "prod.env")
    assert packed.notice.startswith("Left out .env, pkg/.env; ")
    (tmp_path / ".slessignore").write_text("!.env\n")
    packed = pack_folder(tmp_path)
    assert (packed.files, packed.notice) == ((".env", "handler.py", "pkg/.env", "pkg/a.py", "prod.env"), "")


def test_slessignore_excludes_and_reincludes(tmp_path):
    make(tmp_path, "handler.js", "secret.env", "docs/a.md", "node_modules/own/index.js", "keep.env")
    (tmp_path / ".slessignore").write_text("# comment\n*.env\n!keep.env\n/docs/\n!node_modules/\n")
    assert pack_folder(tmp_path).files == ("handler.js", "keep.env", "node_modules/own/index.js")


IGNORE_TEXT = """\
*.log
!important.log
/top.txt
build/
docs/*.md
**/deep/x.txt
a/**
b/**/c.txt
[xyz].dat
q?.txt
[!k]only.bin
sub/inner/
dir with blank/
"""
IGNORE_PATHS = [
    "x.log", "s/x.log", "important.log", "s/important.log", "top.txt", "s/top.txt", "build/f", "s/build/f", "build.txt", "docs/a.md",
    "docs/s/a.md", "s/docs/a.md", "deep/x.txt", "s/t/deep/x.txt", "a/f", "a/b/f", "s/a/f", "b/c.txt", "b/s/t/c.txt", "x.dat", "w.dat",
    "s/y.dat", "q1.txt", "q12.txt", "konly.bin", "jonly.bin", "sub/inner/f", "s/sub/inner/f", "dir with blank/f", "plain.txt",
]  # fmt: skip


def test_rules_match_like_gits(tmp_path):
    if shutil.which("git") is None:
        unavailable("git, the judge of this test,", "git")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(IGNORE_TEXT)
    make(tmp_path, *IGNORE_PATHS)
    judged = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin"], input="\n".join(IGNORE_PATHS), text=True, capture_output=True
    )
    by_git = set(judged.stdout.splitlines())
    rules = IgnoreRules(IGNORE_TEXT)

    def ignored(path: str) -> bool:
        folders = path.split("/")[:-1]
        above = ["/".join(folders[:depth]) for depth in range(1, len(folders) + 1)]
        return any(rules.ignores(folder, is_folder=True) for folder in above) or rules.ignores(path, is_folder=False)

    assert {path for path in IGNORE_PATHS if ignored(path)} == by_git
    assert 5 < len(by_git) < len(IGNORE_PATHS)


def test_the_error_names_an_invalid_pattern(tmp_path):
    make(tmp_path, "handler.py")
    (tmp_path / ".slessignore").write_text("*.log\n!\n")
    with pytest.raises(PackingError, match=r"\.slessignore: Invalid git pattern: '!'"):
        pack_folder(tmp_path)


def test_links_inside_are_sent_as_their_content(tmp_path):
    make(tmp_path, "real.py")
    (tmp_path / "alias.py").symlink_to("real.py")
    archive = zipfile.ZipFile(io.BytesIO(pack_folder(tmp_path).data))
    assert archive.read("alias.py") == b"real.py"


@pytest.mark.parametrize(
    "target, text", [("/etc/hostname", "link out of the folder"), ("absent", "broken link"), ("sub", "link to a folder")]
)
def test_other_links_are_refused_by_name(tmp_path, target, text):
    make(tmp_path, "handler.py", "sub/x.py")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(PackingError, match=f"link: .*{text}"):
        pack_folder(tmp_path)


def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackingError, match="pipe: expected a file, found a device"):
        pack_folder(tmp_path)


def test_nothing_to_send(tmp_path):
    make(tmp_path, ".git/HEAD")
    with pytest.raises(PackingError, match="no files to send"):
        pack_folder(tmp_path)
    with pytest.raises(PackingError, match="expected a folder with the code, found nothing"):
        pack_folder(tmp_path / "absent")
    with pytest.raises(PackingError, match="found a file"):
        pack_folder(tmp_path / ".git" / "HEAD")


@pytest.mark.parametrize(
    "paths, runtime",
    [
        (("handler.py",), "python3.11"),
        (("handler.mjs",), "nodejs20"),
        (("package.json", "src/x.js"), "nodejs20"),
        (("go.mod", "main.go"), "go1.23"),
    ],
)
def test_the_runtime_is_guessed(tmp_path, paths, runtime):
    make(tmp_path, *paths)
    assert guess_runtime(tmp_path) == runtime


def test_the_runtime_is_not_guessed_when_unclear(tmp_path):
    make(tmp_path, "README.md")
    with pytest.raises(PackingError, match="cannot guess the runtime"):
        guess_runtime(tmp_path)
    make(tmp_path, "a.py", "b.js")
    with pytest.raises(PackingError, match=r"b.js \(nodejs20\), a.py \(python3.11\); give --runtime"):
        guess_runtime(tmp_path)


def test_a_missing_default_entrypoint_is_reported_before_the_upload(tmp_path):
    make(tmp_path, "app.py")
    with pytest.raises(PackingError, match=r"handler\.py not found"):
        check_entrypoint(tmp_path, "python3.11")
    make(tmp_path, "inner/handler.py")
    check_entrypoint(tmp_path, "python3.11")
