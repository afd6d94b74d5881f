import pytest

from sless.builder.failures import find_culprit, find_line, import_message_of, install_message_of, masking_of, plain_of


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        ("ERROR: No matching distribution found for nosuch==9", "nosuch==9"),
        ("ERROR: Could not find a version that satisfies the requirement a[b]>=2 (from versions: 1.0)", "a[b]>=2"),
        ("ERROR: Invalid requirement: 'a b': Expected end", "a b"),
        ("ERROR: Failed building wheel for lxml", "lxml"),
        ("ERROR: Failed to build 'psycopg2' when getting requirements to build wheel", "psycopg2"),
        ("WARNING: Requirement './x.whl' looks like a filename, but the file does not exist", "./x.whl"),
        ("ERROR: Could not open requirements file: [Errno 2] No such file or directory: 'other.txt'", "other.txt"),
        ("npm error 404  '@scope/nosuch@1.0.0' is not in this registry.", "@scope/nosuch@1.0.0"),
        ("npm error notarget No matching version found for left-pad@^99.0.0.", "left-pad@^99.0.0"),
        ("npm error Missing: a@1.0.0 from lock file", "a@1.0.0"),
        ("npm error path /srv/x/node_modules/@scope/native", "@scope/native"),
        ("Collecting requests", None),
    ],
)
def test_the_requirement_is_named(line, culprit):
    assert find_culprit(["first", line]) == culprit


def test_an_install_message_has_the_last_fifty_lines():
    message = install_message_of("pip", "requirements.txt", [f"line {n}" for n in range(99)], 2)
    lines = message.splitlines()
    assert lines[0] == "pip failed on requirements.txt (exit code 2)"
    assert lines[1:] == [f"line {n}" for n in range(49, 99)]


def test_long_lines_do_not_make_a_long_message():
    lines = install_message_of("pip", "requirements.txt", ["early", *["y" * 2_000] * 49], 2).splitlines()
    assert lines[1:] == ["y" * 2_000] * 3


def test_npms_usage_does_not_hide_its_reason():
    lines = ["npm error code EUSAGE", "npm error", "npm error Clean install a project", *["npm error x"] * 99]
    assert install_message_of("npm", "package.json", lines, 1).splitlines()[1:] == ["npm error code EUSAGE"]


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (["Traceback (most recent call last):", '  File "x"', "ValueError: bad"], "ValueError: bad"),
        (["Traceback (most recent call last):", "KeyError: 1", "", "During handling", "Custom: bad"], "Custom: bad"),
        (["Traceback (most recent call last):", '  File "x"', "ValueError: bad", "yyyy", "yyyy"], "ValueError: bad"),
        (["/x/handler.js:1", "throw new Error('bad')", "", "Error: bad", "    at x", "  code: 1", "}", "", "Node.js v20.1"], "Error: bad"),
        (
            ["a.js:2: Error: Cannot find module 'x'", "Error: Cannot find", "Require stack:", "- a.js"],
            "a.js:2: Error: Cannot find module 'x'",
        ),
        (["handler.py exited with code 3 while it was imported"], "handler.py exited with code 3 while it was imported"),
    ],
    ids=["python", "python chain", "python that prints", "node", "node with its place", "sentence"],
)
def test_an_import_message_begins_with_the_error(lines, first):
    message = import_message_of("handler.handle", lines)
    assert message.splitlines()[0] == f"handler.handle cannot be imported: {first}"
    assert message.splitlines()[1:] == (lines[1:] if lines[0] == first else lines), "the first line does not repeat it"


def test_values_are_masked_also_within_urls():
    masking = masking_of({"URL": "https://me:s3same@host/simple", "TOKEN": "tok-123", "LEVEL": "2", "NONE": ""})
    assert masking.masked("index https://me:s3same@host/simple") == "index ***"
    assert masking.masked("user me:s3same or s3same, tok-123x, me too") == "user *** or ***, ***x, *** too"
    assert masking.masked("level 2 of 20") == "level *** of 20"
    assert masking_of({}).masked("as it is") == "as it is"


def test_lines_are_plain():
    assert plain_of(b"\x1b[31mred\x1b[0m \r") == "red"
    assert plain_of(b"10%\r50%\r100%\r") == "100%"
    assert plain_of(b"\xff\0x") == "\ufffdx"
    assert plain_of(b"y" * 100_000) == "y" * 16_384 + " …[cut]"


@pytest.mark.parametrize(
    ("text", "culprit", "line"),
    [
        ("# nosuch==9\na==1\nnosuch==9\n", "nosuch==9", 3),
        ("a==1\nNo_Such >= 9 ; python_version > '3'\n", "no-such>=9", 2),
        ("nosuch-more==1\nnosuch[extra]==2\n", "nosuch==2", 2),
        ('{\n  "dependencies": {\n    "@a/b": "^7"\n  }\n}', "@a/b@^7", 3),
        ('{\n  "b": "1",\n  "a": "^7"\n}', "a@^7", 3),
        ("a==1\n", "pulled-in-by-a==2", None),
    ],
)
def test_line_number_of_a_requirement(text, culprit, line):
    assert find_line(text, culprit) == line


def test_single_line_is_not_repeated():
    line = "handler.handle: expected a function, found int"
    assert import_message_of("handler.handle", [line]) == f"handler.handle cannot be imported: {line}"
