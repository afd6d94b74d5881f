import stat

import pytest

from sless.domain.package import ArchiveEntry, PackageLimits, content_hash, entry_files_of, find_entry_file, plan_files
from sless.errors import Code, Invalid, SlessError

LIMITS = PackageLimits(unpacked_bytes=1000, files=5)


def plan(
    *names: str | ArchiveEntry, entrypoint: str = "handler.handle", runtime: str = "python3.11", limits: PackageLimits = LIMITS
) -> list[str]:
    entries = [
        item if isinstance(item, ArchiveEntry) else ArchiveEntry(index=index, name=item, mode=stat.S_IFREG | 0o644)
        for index, item in enumerate(names)
    ]
    return [entry.name for entry in plan_files(entries, runtime=runtime, entrypoint=entrypoint, limits=limits)]


def link(name: str, target: str) -> ArchiveEntry:
    return ArchiveEntry(index=0, name=name, mode=stat.S_IFLNK | 0o777, link=target)


def test_names_are_cleaned_and_sorted_without_junk() -> None:
    names = ["z.py", "./handler.py", "a//b.py", "win\\c.py", "d/", ".git/config", "__MACOSX/x", "a/.DS_Store", ".gitignore"]
    assert plan(*names) == [".gitignore", "a/b.py", "handler.py", "win/c.py", "z.py"]


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../../x",
        "a/..",
        "/etc/passwd",
        "\\etc\\passwd",
        "C:/x",
        "C:\\x",
        "a\x00b",
        "a\nb",
        "",
        "\ud800",
        "a/" + "b" * 256,
        "d/" * 600 + "f",
    ],
)
def test_refused_names(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan("handler.py", name)
    assert len(caught.value.details) == 1 and caught.value.details[0].field.isprintable()


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_devices_are_refused(kind: int) -> None:
    with pytest.raises(Invalid, match="device"):
        plan("handler.py", ArchiveEntry(index=1, name="x", mode=kind | 0o644))


@pytest.mark.parametrize("names", [("a", "a"), ("a/b", "a//b"), ("a", "./a"), ("a", "a/b"), ("a/b/c", "a")])
def test_duplicates_and_files_that_are_folders(names: tuple[str, str]) -> None:
    with pytest.raises(Invalid, match=r"twice|is a file"):
        plan("handler.py", *names)


def test_links_are_kept_only_inside_the_package() -> None:
    assert plan("handler.py", "a/b/c.py", link("bin/c", "../a/b/c.py"), link("d", "a/b")) == ["a/b/c.py", "bin/c", "d", "handler.py"]
    for bad in ("..", "../x", "/etc/passwd", "a/../../x", "", "me"):
        with pytest.raises(Invalid, match=r"link out|circle"):
            plan("handler.py", link("me", bad))


def test_a_link_that_leads_out_through_another_link_is_refused() -> None:
    # p/q/r/d points to s, so p/q/r/d/../.. is above the root, though its text is not.
    with pytest.raises(Invalid) as caught:
        plan("handler.py", link("p/q/r/d", "../../../s"), link("e", "p/q/r/d/../.."))
    assert [detail.field for detail in caught.value.details] == ["e"]


def test_a_file_behind_a_link_is_refused() -> None:
    with pytest.raises(Invalid, match="is a file"):
        plan("handler.py", link("a", "b"), "a/f")


def test_a_folder_is_unwrapped_only_if_the_entrypoint_is_missing_otherwise() -> None:
    assert plan("proj/handler.py", "proj/lib/x.py") == ["handler.py", "lib/x.py"]
    assert plan("handler/__init__.py", "handler/x.py") == ["handler/__init__.py", "handler/x.py"]
    assert plan("__MACOSX/y", "proj/handler.py") == ["handler.py"]
    with pytest.raises(Invalid):
        plan("proj/handler.py", "other/x.py")
    with pytest.raises(Invalid):
        plan("proj/deep/handler.py")


def test_the_error_for_a_missing_entrypoint_names_the_expected_file() -> None:
    with pytest.raises(Invalid, match=r"entrypoint pkg/mod.fn: expected pkg/mod.py .*found a.py"):
        plan("a.py", entrypoint="pkg/mod.fn")
    with pytest.raises(Invalid, match="at least one file"):
        plan("d/")


@pytest.mark.parametrize(
    ("runtime", "entrypoint", "files", "found"),
    [
        ("python3.11", "handler.handle", ["handler.py"], "handler.py"),
        ("python3.11", "handler.handle", ["handler/__init__.py"], "handler/__init__.py"),
        ("python3.11", "pkg/mod.fn", ["pkg/mod.py"], "pkg/mod.py"),
        ("python3.11", "pkg.mod.fn", ["pkg/mod.py"], "pkg/mod.py"),
        ("python3.11", "handler.handle", ["Handler.py", "handler.pyc", "x/handler.py"], None),
        ("nodejs20", "handler.handle", ["handler.mjs"], "handler.mjs"),
        ("nodejs20", "handler.handle", ["handler.cjs", "handler.js"], "handler.js"),
        ("nodejs20", "src/app.run", ["src/app.js"], "src/app.js"),
        ("nodejs20", "handler.mjs.handle", ["handler.mjs"], "handler.mjs"),
        ("nodejs20", "handler.handle", ["handler.ts"], None),
        ("go1.23", "handler.Handle", ["go.mod", "main.go"], "main.go"),
        ("go1.23", "pkg/handler.Handle", ["main.go", "pkg/x.go"], "pkg/x.go"),
        ("go1.23", "handler.Handle", ["sub/main.go"], None),
    ],
)
def test_entry_files(runtime: str, entrypoint: str, files: list[str], found: str | None) -> None:
    assert find_entry_file(files, runtime, entrypoint) == found
    assert entry_files_of(runtime, entrypoint)


def test_the_file_limit_does_not_count_folders() -> None:
    names = ["handler.py", *(f"d{number}/" for number in range(4)), "a", "b", "c", "d"]
    assert len(plan(*names)) == 5
    with pytest.raises(SlessError) as caught:
        plan(*names, "e")
    assert caught.value.code is Code.TOO_LARGE and "max_code_files" in caught.value.message
    with pytest.raises(SlessError) as caught:
        plan(*("handler.py", *(f"d{number}/" for number in range(11))))
    assert caught.value.code is Code.TOO_LARGE


def test_the_content_hash_depends_only_on_path_mode_and_content() -> None:
    base = {"a": ("-", "1" * 64), "b": ("x", "2" * 64)}
    assert content_hash(base) == content_hash(dict(reversed(base.items())))
    others = [
        {"a": ("x", "1" * 64), "b": ("x", "2" * 64)},
        {"a": ("-", "3" * 64), "b": ("x", "2" * 64)},
        {"c": ("-", "1" * 64), "b": ("x", "2" * 64)},
        {"a": ("-", "1" * 64)},
    ]
    assert len({content_hash(item) for item in [base, *others]}) == 5


def test_a_declared_size_over_the_limit_is_refused_except_for_junk() -> None:
    huge = ArchiveEntry(index=1, name="zeros", size_bytes=LIMITS.unpacked_bytes + 1)
    with pytest.raises(SlessError, match="max_unpacked_bytes"):
        plan("handler.py", huge)
    assert plan("handler.py", ArchiveEntry(index=1, name=".git/pack", size_bytes=1 << 40)) == ["handler.py"]
