"""Where the client finds the server and its token."""

import pytest

from sless.client import Profile, ProfileError
from sless.client.profiles import DEFAULT_URL, file_of, read_file, resolve, save_profile

HOME = Profile(url="https://home.example", token="home-token", namespace="sless-1")
WORK = Profile(url="https://work.example", token="work-token")


@pytest.fixture
def environ(tmp_path):
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def two(environ):
    save_profile(file_of(environ), "home", HOME)
    save_profile(file_of(environ), "work", WORK)
    return environ


def test_the_file_is_private_to_its_owner(two):
    assert file_of(two).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file_of(two).parent.iterdir()] == ["config.toml"]


def test_profiles_are_read_back(environ):
    strange = Profile(url="https://x.example/a b", token='quote" back\\ \x7f \x01 ü 😀', namespace="")
    save_profile(file_of(environ), 'na"me.x', strange)
    assert read_file(file_of(environ)).profiles == {'na"me.x': strange}


def test_the_last_saved_profile_is_current(two):
    assert resolve(Profile(), "", two) == WORK
    assert resolve(Profile(), "home", two) == HOME
    assert resolve(Profile(), "", two | {"SLESS_PROFILE": "home"}) == HOME


def test_options_override_the_environment_and_it_overrides_the_file(two):
    environment = two | {"SLESS_URL": "https://work.example/", "SLESS_TOKEN": "env-token"}
    assert resolve(Profile(), "", environment).token == "env-token"
    assert resolve(Profile(token="given"), "", environment).token == "given"
    assert resolve(Profile(), "home", environment) == HOME


@pytest.mark.parametrize("given, variable", [(Profile(url="https://evil.example"), ""), (Profile(), "https://evil.example")])
def test_a_stored_token_is_not_sent_to_another_server(two, given, variable):
    found = resolve(given, "", two | {"SLESS_URL": variable})
    assert (found.url, found.token) == ("https://evil.example", "")


def test_the_default_server_is_local(environ):
    assert resolve(Profile(), "", environ) == Profile(url=DEFAULT_URL)


def test_the_error_for_an_unknown_profile_lists_the_known_ones(two):
    with pytest.raises(ProfileError, match=r'no profile "play" in .*, only: home, work'):
        resolve(Profile(), "play", two)


@pytest.mark.parametrize("text", ["not toml", "profiles = 3", "[profiles]\nx = 1"])
def test_the_error_names_a_broken_file(environ, text):
    file_of(environ).parent.mkdir()
    file_of(environ).write_text(text)
    with pytest.raises(ProfileError, match=r"config\.toml: "):
        resolve(Profile(), "", environ)
