"""Go files that the compiler leaves out."""

import pytest

from sless.builder.go_constraints import left_out_notes_of, left_out_reason_of


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.go", "package a", ""),
        ("a_windows.go", "package a", "for windows only"),
        ("a_linux.go", "package a", ""),
        ("a_linux_arm64.go", "package a", ""),
        ("a_windows_amd64.go", "package a", "for windows only"),
        ("a_386.go", "package a", "for 386 only"),
        ("windows.go", "package a", ""),
        ("a_windows_x.go", "package a", ""),
        ("a.go", "// text\n\n//go:build ignore\n\npackage a", "//go:build ignore"),
        ("a.go", "//go:build linux && !windows && (amd64 || arm64)\n\npackage a", ""),
        ("a.go", "//go:build darwin || (linux && cgo)\n\npackage a", "//go:build darwin || (linux && cgo)"),
        ("a.go", "//go:build mine\n\npackage a", ""),
        ("a.go", "//go:build go1.21 && !go1.99 && unix\n\npackage a", ""),
        ("a.go", "//go:build go1.99\n\npackage a", "//go:build go1.99"),
        ("a.go", "package a\n\n//go:build ignore\n", ""),
        ("a.go", "//go:build linux &&\n\npackage a", ""),
        ("a.go", 'package a\n\n// #include <math.h>\nimport "C"\n', 'import "C": cgo is off'),
        ("a.go", 'package a\n\nimport (\n\t"fmt"\n\t"C"\n)\n', 'import "C": cgo is off'),
    ],
)
def test_reason(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    assert left_out_reason_of(tmp_path / name, ["mine"]) == reason


def test_note_names_the_files(tmp_path):
    for folder in ("", "lib", "vendor"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "native_windows.go").write_text("package a")
    (tmp_path / "a_test.go").write_text("//go:build ignore\n\npackage a")
    assert left_out_notes_of(tmp_path) == [
        "note: the compiler leaves out lib/native_windows.go (for windows only), native_windows.go (for windows only)"
    ]
    for number in range(12):
        (tmp_path / "lib" / f"a{number}_js.go").write_text("package a")
    assert left_out_notes_of(tmp_path)[0].endswith(" and 4 more")
