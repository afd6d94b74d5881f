"""Parsing and repeating the commands that `go build -n` prints."""

from pathlib import Path

import pytest

from sless.builder.go_recipe import ReplayFolders, find_recipe, steps_of

PRINTED = """
#
# app/inner
#

mkdir -p $WORK/b003/
cat >$WORK/b003/importcfg << 'EOF' # internal
# import config
packagefile fmt=/cache/f-d
EOF
cat >$WORK/b003/embedcfg << 'EOF' # internal
{"Files": {"a": "/code/inner/a"}}EOF
cd /code
/go/tool/compile -o $WORK/b003/_pkg_.a -trimpath "/code/inner=>x;$WORK/b003=>" -p inner -importcfg $WORK/b003/importcfg -pack ./inner/a.go
/go/tool/buildid -w $WORK/b003/_pkg_.a # internal
cat >$WORK/b001/importcfg << 'EOF' # internal
packagefile app/inner=$WORK/b003/_pkg_.a
EOF
/go/tool/compile -o $WORK/b001/_pkg_.a -p main -importcfg $WORK/b001/importcfg -pack ./main/main.go
cat >$WORK/b001/importcfg.link << 'EOF' # internal
packagefile app/inner=$WORK/b003/_pkg_.a
EOF
cd .
GOROOT='' /go/tool/link -o $WORK/b001/exe/a.out -importcfg $WORK/b001/importcfg.link -s $WORK/b001/_pkg_.a
mv $WORK/b001/exe/a.out /made/program
"""
CODE = Path("/code")


def place(tmp_path: Path) -> ReplayFolders:
    return ReplayFolders(code=Path("/new"), work=Path("/b"), archives=tmp_path, program=Path("/out/program"))


def test_packages_are_compiled_in_another_folder(tmp_path):
    recipe = find_recipe(PRINTED, CODE)
    assert recipe is not None
    steps = steps_of(recipe, {"inner/a.go": "1", "main/main.go": "2"}, place(tmp_path))
    inner, main = steps.archives
    assert steps.script.splitlines() == [
        "set -e",
        f"/go/tool/compile -o /b/{inner.name} -trimpath '/new/inner=>x;/b/b003=>' -p inner -importcfg /b/b003/importcfg -pack ./inner/a.go",
        f"/go/tool/compile -o /b/{main.name} -p main -importcfg /b/b001/importcfg -pack ./main/main.go",
        f"GOROOT= /go/tool/link -o /out/program -importcfg /b/b001/importcfg.link -s /b/{main.name}",
    ]
    assert steps.files[Path("/b/b001/importcfg.link")] == f"packagefile app/inner=/b/{inner.name}\n"
    assert steps.made == {Path("/b") / path.name: path for path in steps.archives}
    assert steps.files[Path("/b/b003/embedcfg")] == '{"Files": {"a": "/new/inner/a"}}'


def test_only_what_changed_and_what_imports_it_is_compiled(tmp_path):
    recipe = find_recipe(PRINTED, CODE)
    assert recipe is not None

    def compiled(inner: str, main: str) -> list[str]:
        steps = steps_of(recipe, {"inner/a.go": inner, "main/main.go": main}, place(tmp_path))
        for path in steps.archives:
            path.touch()
        return [line.rpartition("/")[2] for line in steps.script.splitlines() if "/compile " in line]

    assert compiled("1", "1") == ["a.go", "main.go"]
    assert compiled("1", "1") == []
    assert compiled("1", "2") == ["main.go"]
    assert compiled("2", "2") == ["a.go", "main.go"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/go/tool/buildid -w", "/go/tool/asm -o"),
        ("/go/tool/buildid -w", "cp"),
        ("GOROOT='' /go/tool/link", "# "),
        ("-s $WORK/b001/_pkg_.a", "-s $WORK/b003/_pkg_.a"),
        ("-pack ./main/main.go", "-pack"),
        ("-pack ./main/main.go", "-other ./main/main.go"),
        ('"/code/inner', "/code/inner"),
    ],
    ids=["assembly", "another command", "no link", "another main", "no sources", "malformed file list", "unbalanced quotes"],
)
def test_unknown_commands_give_no_recipe(old, new):
    assert old in PRINTED
    assert find_recipe(PRINTED.replace(old, new), CODE) is None


def test_empty_output_gives_no_recipe():
    assert find_recipe("", CODE) is None
