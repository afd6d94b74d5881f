"""Code and its hash, durations, the provider's configuration, diagnostics."""

import threading
import zipfile

import pytest
from tf.types import Unknown
from tf.utils import Diagnostics

from sless.client import ClientError, Unreachable
from sless.terraform.code import planned_hash, read_code
from sless.terraform.connection import target_of
from sless.terraform.failure import Failure, Interrupted, report
from sless.terraform.install import InstallError, cli_config, install
from sless.terraform.waiting import Waiter, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5m", 90),
        ("", None),
        ("10", None),
        ("m", None),
        ("1..5s", None),
        ("soon", None),
    ],
)
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


def test_a_waiter_ends_at_its_timeout_or_when_stopped():
    stop = threading.Event()
    assert Waiter(stop).poll(lambda: 5, 1, lambda: "never") == 5
    with pytest.raises(Failure, match="it is late after 0 s"):
        Waiter(stop).poll(lambda: None, 0, lambda: "it is late")
    stop.set()
    with pytest.raises(Interrupted):
        Waiter(stop).poll(lambda: None, 60, lambda: "it is late")


def test_a_waiter_outlasts_a_short_outage_and_a_busy_server():
    busy = ClientError(message="too many uploads at once", status=429, code="too_many_requests", retry_after_sec=0.01)
    answers = [Unreachable(message="refused"), ClientError(message="no server", status=503), busy, None]

    def request():
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    assert Waiter(threading.Event()).outlast(request) is None
    assert not answers


@pytest.mark.parametrize(
    "error",
    [
        ClientError(message="full", status=503, code="storage_full"),
        ClientError(message="no", status=404),
        ClientError(message="240 builds per hour", status=429, retry_after_sec=1800),
        ClientError(message="without a Retry-After", status=429),
        Unreachable(message=""),
    ],
)
def test_a_waiter_raises_other_errors_and_that_of_a_long_outage(error):
    def request():
        raise error

    with pytest.raises(type(error)) as raised:
        Waiter(threading.Event(), outage_sec=0).outlast(request)
    assert raised.value is error


def test_the_hash_depends_only_on_names_contents_and_execute_bits(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    file = folder / "handler.py"
    file.write_text("a = 1\n")
    values = {"source_dir": str(folder)}
    first = read_code(values).hash
    file.touch()
    (folder / ".slessignore").write_text("*.md\n")
    (folder / "README.md").write_text("left out")
    assert read_code(values).hash == first
    file.chmod(0o755)
    executable = read_code(values).hash
    file.write_text("a = 2\n")
    edited = read_code(values).hash
    file.rename(folder / "other.py")
    assert len({first, executable, edited, read_code(values).hash}) == 4


def test_code_may_be_a_zip_or_one_file(tmp_path):
    file = tmp_path / "handler.py"
    file.write_text("a = 1\n")
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.write(file, "handler.py")
    assert read_code({"code_path": str(tmp_path / "code.zip")}).data == (tmp_path / "code.zip").read_bytes()
    single = read_code({"code_path": str(file)})
    assert single.hash == read_code({"code_path": str(tmp_path / "code.zip")}).hash
    with pytest.raises(Failure, match="found nothing") as failure:
        read_code({"code_path": str(tmp_path / "none.zip")})
    assert failure.value.path == ("code_path",)


def test_the_planned_hash():
    assert planned_hash({"source_dir": "x"}, {"code_hash": "given"}, None) == "given"
    assert planned_hash({"source_dir": Unknown}, {}, {"code_hash": "old"}) is Unknown
    assert planned_hash({}, {}, {"code_hash": "old"}) == "old"


@pytest.mark.parametrize(
    ("config", "environ", "expected"),
    [
        ({"endpoint": "http://a", "token": "t"}, {"SLESS_ENDPOINT": "http://b"}, ("http://a", "")),
        ({"token": "t"}, {"SLESS_ENDPOINT": "http://b", "SLESS_AUTH_CHECK_URL": "http://c"}, ("http://b", "http://c")),
        ({"token": "t"}, {"NUBES_ENDPOINT": "http://b"}, ("http://b", "")),
        ({"nubes_endpoint": "http://n"}, {"SLESS_API_TOKEN": "t"}, ("http://n", "")),
        ({"nubes_endpoint": "http://n", "endpoint": "http://a"}, {"SLESS_API_TOKEN": "t"}, ("http://a", "http://n")),
    ],
)
def test_configuration_overrides_the_environment(config, environ, expected):
    target = target_of(config, environ)
    assert (target.endpoint, target.auth_check_url, target.token) == (*expected, "t")


@pytest.mark.parametrize(("config", "path"), [({"token": "t"}, "endpoint"), ({"endpoint": "http://a"}, "token")])
def test_errors_name_missing_attributes(config, path):
    with pytest.raises(Failure) as failure:
        target_of(config, {})
    assert failure.value.path == (path,)


def test_a_request_error_is_shown_at_its_attribute():
    diagnostics = Diagnostics()
    details = ({"field": "env_vars.A-B", "message": "wrong name"}, {"field": "elsewhere", "message": "wrong"})
    report(diagnostics, ClientError(message="two mistakes", status=400, details=details), "Cannot create", {"env_vars"})
    first, second = diagnostics.diagnostics
    assert (first.path, first.detail) == (["env_vars", ("A-B",)], "env_vars.A-B: wrong name")
    assert (second.path, second.detail) == (None, "two mistakes")


def test_a_bug_is_shown_with_its_location():
    diagnostics = Diagnostics()
    try:
        raise RuntimeError("surprise")
    except RuntimeError as error:
        report(diagnostics, error, "Cannot create", ())
    assert "surprise" in str(diagnostics) and "test_parts.py" in str(diagnostics)


def test_it_is_installed_where_terraform_and_opentofu_look(tmp_path):
    install(tmp_path, "registry.terraform.io/sless/sless", None)
    found = [path.relative_to(tmp_path) for path in tmp_path.rglob("terraform-provider-*")]
    assert sorted(path.parts[0] for path in found) == ["registry.opentofu.org", "registry.terraform.io"]
    both = 'include = ["registry.terraform.io/sless/sless", "registry.opentofu.org/sless/sless"]'
    assert both in cli_config(tmp_path, "registry.terraform.io/sless/sless")
    assert 'include = ["registry.example.org/cloud/sless"]' in cli_config(tmp_path, "registry.example.org/cloud/sless")


@pytest.mark.parametrize("address", ["sless", "a/b", "a/b/c/d", "../../x"])
def test_a_wrong_address_is_named(tmp_path, address):
    with pytest.raises(InstallError, match="expected an address such as"):
        install(tmp_path, address, None)
