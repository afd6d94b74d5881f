import json

import pytest

from sless.builder.dependencies import Tool, WrongManifest, find_installation, text_of, unread_notes_of
from sless.domain.model import Kind
from sless.domain.ports import BuildSpec


def spec(runtime: str = "python3.11", **fields) -> BuildSpec:
    given = {
        "id": "b", "workload_id": "w", "namespace": "ns", "name": "f", "kind": Kind.FUNCTION, "version": 1, "runtime": runtime,
        "entrypoint": "handler.handle", "code_key": "k", "build_env": {}, "env": {}, "memory_mb": 128,
    }  # fmt: skip
    return BuildSpec(**{**given, **fields})


def found(folder, files: dict[str, str | bytes], **fields):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return find_installation(folder, spec(**fields))


@pytest.mark.parametrize(
    "raw",
    [
        b"a==1\nb>2\n",
        b"\xef\xbb\xbfa==1\r\nb>2\r\n",
        "a==1\r\nb>2".encode("utf-16"),
        b"# c\n\n  a==1   # why\n\tb>2",
    ],
    ids=["plain", "bom-crlf", "utf-16", "comments"],
)
def test_encoding_comments_and_blank_lines_do_not_matter(raw):
    assert text_of(raw) == "a==1\nb>2"


def test_url_fragment_is_not_a_comment():
    assert text_of(b"x @ https://h/x.whl#sha256=abc\n") == "x @ https://h/x.whl#sha256=abc"


@pytest.mark.parametrize(
    ("line", "names_files"),
    [
        ("requests==2", False),
        ("requests[socks]>=2; python_version > '3'", False),
        ("--index-url https://example.org/simple", False),
        ("-r other.txt", True),
        ("-c limits.txt", True),
        ("-e .", True),
        ("--find-links wheels", True),
        ("./pkg", True),
        ("../pkg", True),
        ("pkg @ file:pkg", True),
        ("wheels/x-1-py3-none-any.whl", True),
        ("x.tar.gz", True),
        ("x.zip[extra]", True),
        ("pkg/sub", True),
        (".", True),
        ("..", True),
        ("name @ pkg/sub", True),
        ("${HOME}/x", True),
        ("-i file:///srv/simple", True),
        ("--extra-index-url=./simple", True),
        ("--some-new-option x", True),
        ("x @ https://h/x-1.whl#sha256=abc", False),
        ("git+https://h/x.git@main", False),
        ("requests == 2.0 , < 3 --hash=sha256:0a --hash=sha256:0b", False),
        ("requests==2 \\\n    --hash=sha256:0a", False),
        ("--only-binary :all:\n--trusted-host h:80\n--pre", False),
    ],
)
def test_requirements_that_name_files_of_the_upload(tmp_path, line, names_files):
    assert found(tmp_path, {"requirements.txt": line}).needs_code is names_files


def test_key_depends_on_everything_the_installer_reads(tmp_path):
    files = {"requirements.txt": "a==1"}
    keys = {
        "plain": found(tmp_path, files).key,
        "other code": found(tmp_path, files, code_key="k2").key,
        "other tenant": found(tmp_path, files, namespace="ns2").key,
        "private": found(tmp_path, files, build_env={"A": "1"}).key,
        "private again": found(tmp_path, files, build_env={"A": "2"}, code_key="k2").key,
        "private elsewhere": found(tmp_path, files, build_env={"A": "1"}, namespace="ns2").key,
        "files": found(tmp_path, {"requirements.txt": "a==1\n./b"}).key,
        "other files": found(tmp_path, {"requirements.txt": "a==1\n./b"}, code_key="k2").key,
    }
    assert keys["plain"] == keys["other code"] == keys["other tenant"]
    assert len({keys[name] for name in ("plain", "private", "private again", "private elsewhere", "files", "other files")}) == 6


@pytest.mark.parametrize(
    ("files", "unread"),
    [
        (["handler.py"], []),
        (["uv.lock", "poetry.lock"], ["uv.lock", "poetry.lock"]),
        (["uv.lock", "requirements.txt"], []),
    ],
)
def test_manifests_that_are_not_read_are_named(tmp_path, files, unread):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [note.split()[1] for note in unread_notes_of(tmp_path, "python3.11")] == unread


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ('[project]\nname = "x"\ndependencies = ["a"]\n', True),
        ("[tool.ruff]\n", False),
        ("[project]\ndependencies = []\n", False),
        ("[", False),
    ],
)
def test_a_pyproject_is_named_when_it_lists_packages(tmp_path, text, is_named):
    (tmp_path / "pyproject.toml").write_text(text)
    assert bool(unread_notes_of(tmp_path, "python3.11")) is is_named


def test_locks_of_other_installers_are_named(tmp_path):
    (tmp_path / "package.json").touch()
    (tmp_path / "yarn.lock").touch()
    assert unread_notes_of(tmp_path, "nodejs20") == [
        "note: yarn.lock is not read: npm takes the versions from package-lock.json, else from package.json"
    ]
    (tmp_path / "package-lock.json").touch()
    assert unread_notes_of(tmp_path, "nodejs20") == []


@pytest.mark.parametrize("entrypoint", ["src.lib.handler.handle", "src/lib/handler.handle"])
def test_a_manifest_beside_the_entrypoint_counts_without_one_in_the_top_folder(tmp_path, entrypoint):
    own = found(tmp_path, {"src/lib/requirements.txt": "a==1", "src/requirements.txt": "b==1"}, entrypoint=entrypoint)
    assert (own.file, own.folder, own.needs_code) == ("src/lib/requirements.txt", "src/lib", False)
    assert found(tmp_path, {}, entrypoint="src.handler.handle").key != own.key
    assert found(tmp_path, {}, entrypoint="handler.handle") is None
    assert found(tmp_path, {"requirements.txt": "a==1"}, entrypoint=entrypoint).file == "requirements.txt"


def test_a_package_json_beside_the_entrypoint(tmp_path):
    files = {f"src/{name}": text for name, text in package(dependencies={"a": "1"}).items()}
    own = found(tmp_path, files | {"src/package-lock.json": "{}"}, runtime="nodejs20", entrypoint="src/handler.handle")
    assert (own.tool, own.file, own.folder) == (Tool.NPM_CI, "src/package-lock.json", "src")
    files = {f"src/{name}": text for name, text in package(dependencies={"a": "file:../a"}).items()}
    with pytest.raises(WrongManifest, match=r"src/package-lock\.json refers to files of the upload: move it to the top folder"):
        found(tmp_path, files, runtime="nodejs20", entrypoint="src/handler.handle")


def test_a_setting_that_names_a_file_of_the_upload(tmp_path):
    files = {"requirements.txt": "a==1", "limits.txt": "b==1"}
    for values, needs_code in (
        ({"PIP_CONSTRAINT": "x limits.txt"}, True),
        ({"PIP_INDEX_URL": "https://h/simple", "X": "limits.txt"}, False),
    ):
        assert found(tmp_path, files, build_env=values).needs_code is needs_code


def package(**fields) -> dict[str, str]:
    return {"package.json": json.dumps({"name": "f", **fields})}


def test_node_with_and_without_a_lock(tmp_path):
    wanted = found(tmp_path, package(dependencies={"a": "1"}), runtime="nodejs20")
    assert (wanted.tool, wanted.file, wanted.needs_code) == (Tool.NPM_INSTALL, "package.json", False)
    locked = found(tmp_path, {"package-lock.json": "{}"}, runtime="nodejs20")
    assert (locked.tool, locked.file) == (Tool.NPM_CI, "package-lock.json")
    assert wanted.key != locked.key
    assert found(tmp_path, {"package-lock.json": '{"x": 1}'}, runtime="nodejs20").key != locked.key
    assert found(tmp_path, {".npmrc": "registry=x"}, runtime="nodejs20").key != locked.key


@pytest.mark.parametrize(
    "fields",
    [
        {"dependencies": {"a": "file:./a"}},
        {"dependencies": {"a": "../a"}},
        {"dependencies": {"a": "a-1.0.0.tgz"}},
        {"dependencies": {"a": "1"}, "devDependencies": {"b": "link:b"}},
        {"dependencies": {"a": "1"}, "overrides": {"b": {"c": "1"}}},
        {"dependencies": {"a": "1"}, "scripts": {"postinstall": "node build.js"}},
        {"dependencies": {"a": "1"}, "workspaces": ["pkg/*"]},
    ],
)
def test_packages_that_need_the_upload(tmp_path, fields):
    one = found(tmp_path, package(**fields), runtime="nodejs20")
    assert one.needs_code and one.key != found(tmp_path, {}, runtime="nodejs20", code_key="k2").key


@pytest.mark.parametrize("fields", [{}, {"dependencies": {}}, {"devDependencies": {"a": "1"}}, {"scripts": {"test": "x"}}])
def test_packages_without_anything_to_install(tmp_path, fields):
    assert found(tmp_path, package(**fields), runtime="nodejs20") is None


def test_each_runtime_reads_its_own_file(tmp_path):
    assert found(tmp_path, {"requirements.txt": "a==1"}, runtime="nodejs20") is None
    assert found(tmp_path, {"package.json": "{broken"}) is not None
    with pytest.raises(WrongManifest, match=r"package\.json is not valid JSON"):
        found(tmp_path, {}, runtime="nodejs20")


@pytest.mark.parametrize("text", ["[]", '{"dependencies": ["a"]}', '{"dependencies": {"a": "1"}, "scripts": "x"}'])
def test_a_wrong_package_json(tmp_path, text):
    with pytest.raises(WrongManifest, match=r"package\.json: .*expected an? .*object, found "):
        found(tmp_path, {"package.json": text}, runtime="nodejs20")
