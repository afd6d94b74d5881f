"""Pages of the console without a browser: signing in, languages, older links."""

import gzip
import json
import re
from pathlib import Path

import pytest

from sless.domain.model import VersionState
from sless.http.console.texts import LANGUAGES, form_of, texts_of
from sless.tokens.console import CODE_SEC, create_code, key_of
from tests.contract.rest_harness import OPERATOR, SUB, Rest

PAGE = {"Accept": "text/html,application/xhtml+xml"}
LOCAL = {"REMOTE_ADDR": "127.0.0.1"}


def test_the_token_of_a_link_moves_into_a_cookie(rest: Rest) -> None:
    rest.function()
    answer = rest.get(f"/funcs?token={rest.token()}", sub=None, headers=PAGE)
    cookie = answer.headers["Set-Cookie"]
    assert answer.status_code == 303 and answer.headers["Location"] == f"/funcs/{rest.namespace}"
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/funcs;" in cookie and "Secure" not in cookie
    assert 3500 < int(re.search(r"Max-Age=(\d+)", cookie)[1]) <= 3600, "until the token expires"
    listed = rest.get(f"/funcs/{rest.namespace}", sub=None, headers=PAGE)
    assert listed.status_code == 200 and rest.token() not in listed.text and key_of(rest.token()) in listed.text
    assert "'unsafe-inline'" not in listed.headers["Content-Security-Policy"]
    # Other clients get the list right away.
    text = rest.get(f"/funcs?token={rest.token('bob')}", sub=None, headers={"Accept": "*/*"})
    assert (text.status_code, text.text) == (200, "total 0\n") and "Set-Cookie" not in text.headers
    assert rest.get("/funcs?token=x.y.z", sub=None).json["code"] == "token_malformed"
    secure = Rest(rest.store, rest.settings.data_dir, external_url="https://fn.example.org")
    assert "Secure" in secure.get(f"/funcs?token={secure.token()}", sub=None, headers=PAGE).headers["Set-Cookie"]


def test_signing_in_with_the_form(rest: Rest) -> None:
    wrong = rest.post("/funcs/login", data={"token": "x.y.z"}, sub=None, headers=PAGE)
    assert wrong.status_code == 401 and "x.y.z" not in wrong.text and "Set-Cookie" not in wrong.headers
    assert "invalid_token" in wrong.headers["WWW-Authenticate"], "counts as a failed attempt"
    foreign = rest.post("/funcs/login", data={"token": rest.token()}, sub=None, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    wanted = f"/funcs/{rest.namespace}/functions/hello"
    right = rest.post("/funcs/login", data={"token": rest.token(), "next": wanted}, sub=None)
    assert (right.status_code, right.headers["Location"]) == (303, wanted)
    for next_ in ("//evil.example.org/", "https://evil.example.org", "/funcs/\\evil", "/funcs//evil.example.org", "/v1/whoami"):
        target = rest.post("/funcs/login", data={"token": rest.token(), "next": next_}, sub=None).headers["Location"]
        assert target == f"/funcs/{rest.namespace}", next_
    rest.post("/funcs/logout", sub=None)
    assert rest.get("/funcs", sub=None, headers=PAGE).status_code == 401


def test_the_cookie_is_only_for_pages_that_the_browser_opens_itself(rest: Rest) -> None:
    rest.get(f"/funcs?token={rest.token()}", sub=None, headers=PAGE)
    for dest, status in (("document", 200), ("empty", 401), ("iframe", 401), ("object", 401)):
        answer = rest.get(f"/funcs/{rest.namespace}", sub=None, headers=PAGE | {"Sec-Fetch-Dest": dest})
        assert answer.status_code == status, dest
        assert (key_of(rest.token()) in answer.text) == (status == 200)
    assert rest.get("functions", sub=None).status_code == 401


def test_a_code_signs_in_once_on_this_machine(rest: Rest) -> None:
    code = create_code(rest.settings, "carol")
    far = rest.get(f"/funcs?code={code}", sub=None, headers=PAGE, environ_base={"REMOTE_ADDR": "192.0.2.7"})
    assert far.status_code == 403
    proxied = rest.get(f"/funcs?code={code}", sub=None, headers=PAGE | {"X-Forwarded-For": "192.0.2.7"}, environ_base=LOCAL)
    assert proxied.status_code == 403
    first = rest.get(f"/funcs?code={code}", sub=None, headers=PAGE, environ_base=LOCAL)
    assert first.status_code == 303 and "HttpOnly" in first.headers["Set-Cookie"]
    assert rest.get(first.headers["Location"], sub=None, headers=PAGE).status_code == 200
    again = rest.get(f"/funcs?code={code}", sub=None, headers=PAGE, environ_base=LOCAL)
    assert again.status_code == 401 and "used already" in again.text and "Set-Cookie" not in again.headers
    assert not any((rest.settings.data_dir / "console-codes").iterdir())


def test_a_code_expires(rest: Rest) -> None:
    code = create_code(rest.settings, "carol")
    (path,) = (rest.settings.data_dir / "console-codes").iterdir()
    assert path.stat().st_mode & 0o077 == 0 and code not in path.read_text() + path.name
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"expires_at": content["expires_at"] - CODE_SEC - 1}))
    answer = rest.get(f"/funcs?code={code}", sub=None, headers=PAGE, environ_base=LOCAL)
    assert answer.status_code == 401 and "Set-Cookie" not in answer.headers


def test_pages_of_another_namespace_are_refused(rest: Rest) -> None:
    rest.get(f"/funcs?token={rest.token('bob')}", sub=None, headers=PAGE)
    answer = rest.get(f"/funcs/{rest.namespace}", sub=None, headers=PAGE)
    assert answer.status_code == 403 and "text/html" in answer.content_type
    assert rest.get(f"/funcs/{rest.namespace}/functions/hello", sub=None, headers=PAGE).status_code == 403


def test_pages_escape_user_text(rest: Rest) -> None:
    rest.function(description="<script>alert(2)</script>")
    rest.built(state=VersionState.FAILED, message="<script>alert(1)</script>")
    for path in (f"/funcs/{rest.namespace}", f"/funcs/{rest.namespace}/functions/hello"):
        assert "<script>alert" not in rest.get(path, headers=PAGE).text


def test_every_page_renders_in_both_languages(rest: Rest) -> None:
    rest.function(env_vars={"SECRET": "hidden"})
    rest.function("web", "service")
    rest.built()
    rest.post("triggers", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "*/5 * * * *"})
    rest.post("triggers", {"name": "over-http", "type": "http", "function_ref": "hello", "auth": "key"})
    rest.post("triggers", {"name": "in", "type": "event", "function_ref": "hello", "queue": "q", "amqp_url": "amqp://mq.example.org"})
    rest.post("jobs", {"name": "job", "function_ref": "hello"})
    shown = {
        "": ["hello", "web", "job", "*/5 * * * *"],
        "/functions/hello": [f"/fn/{rest.namespace}/hello", "python3.11", "over-http"],
        "/functions/hello/triggers": ["tick", "over-http", "in"],
        "/functions/hello/settings": ['value="128"', "SECRET"],
        "/functions/hello/versions": ["python3.11"],
        "/services/web": ["web"],
        "/services/web/settings": ['name="replicas"'],
        "/jobs/job": ["run-again"],
        "/jobs/job/settings": ['name="timeout_sec"', 'name="event_json"'],
        "/triggers": ["tick", "over-http"],
        "/triggers/tick": ["*/5 * * * *", "UTC"],
        "/triggers/over-http": ["X-Sless-Key"],
        "/triggers/in": ["••••"],
        "/new-trigger?type=cron&function=hello": ['value="hello"'],
        "/usage": ["<meter", "256\u00a0"],
        "/guide": ['<h2 id="event">', f"/funcs/{rest.namespace}/examples/lambda-python"],
        "/examples": ["hello-python", "new?example=hello-python"],
        "/examples/sse-node": ["async generator", "new?example=sse-node"],
    }
    for language in LANGUAGES:
        for path, texts in shown.items():
            answer = rest.get(f"/funcs/{rest.namespace}{path}", headers=PAGE | {"Accept-Language": language})
            assert answer.status_code == 200, (path, answer.text)
            assert f'<html lang="{language}"' in answer.text and "style=" not in answer.text and " onclick" not in answer.text
            assert not [text for text in texts if text not in answer.text], path


def test_versions_show_author_time_and_size(rest: Rest) -> None:
    rest.function()
    rest.built()
    rest.post("functions/hello/rebuild", sub=OPERATOR)
    found = rest.get("functions/hello/versions").json
    assert [item["created_by"] for item in found] == [OPERATOR, SUB]
    page = rest.get(f"/funcs/{rest.namespace}/functions/hello/versions", headers=PAGE).text
    for item, state in zip(found, ("Queued", "Ready"), strict=True):
        row = re.search(rf'<tr data-version="{item["version"]}">.*?</tr>', page, re.DOTALL)[0]
        shown = (item["created_by"], f'datetime="{item["created_at"]}"', f">{item['size_bytes']}\u00a0B<", state)
        assert not [text for text in shown if text not in row], row


def test_the_older_address_switches_a_trigger(rest: Rest) -> None:
    rest.function()
    rest.post("triggers", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "*/5 * * * *"})
    path = f"/funcs/{rest.namespace}/triggers/tick"
    assert rest.patch(path, {"enabled": False}).json["enabled"] is False
    assert rest.get("triggers/tick").json["enabled"] is False
    assert rest.patch(path, {"schedule": "* * * * *"}).status_code == 400
    assert rest.patch(path, {"enabled": True}, sub="bob").status_code == 403
    rest.get(f"/funcs?token={rest.token()}", sub=None, headers=PAGE)
    assert rest.patch(path, {"enabled": True}, sub=None).json["code"] == "token_missing", "a cookie is not enough"


@pytest.mark.parametrize("name", ["guide", "examples", "new", "usage", "triggers", "code", "source", "login"])
def test_a_name_that_is_also_part_of_an_address(rest: Rest, name: str) -> None:
    rest.function(name)
    rest.post("triggers", {"name": name, "type": "http", "function_ref": name})
    for path in (f"functions/{name}", f"functions/{name}/code", f"triggers/{name}"):
        answer = rest.get(f"/funcs/{rest.namespace}/{path}", headers=PAGE)
        assert answer.status_code == 200 and f"<h1>{name}</h1>" in answer.text
    guide = rest.get(f"/funcs/{rest.namespace}/guide", headers=PAGE).text
    assert '<h2 id="event">' in guide and f"<h1>{name}</h1>" not in guide
    assert rest.get("/funcs/guide", headers=PAGE).status_code == 403, "it would be read as a namespace"


def test_function_links_redirect_to_the_page_of_a_service(rest: Rest) -> None:
    rest.function("web", "service")
    base = f"/funcs/{rest.namespace}"
    found = rest.get(f"{base}/functions/web/calls?status=failed", headers=PAGE)
    assert (found.status_code, found.headers["Location"]) == (303, f"{base}/services/web/calls?status=failed")
    assert rest.get(f"{base}/services/nope", headers=PAGE).status_code == 404


def test_the_older_address_of_the_source(rest: Rest) -> None:
    rest.function()
    path = f"/funcs/{rest.namespace}/source/hello"
    assert rest.get(path).status_code == 404
    rest.upload(files={"handler.py": "def handle(event): ...\n", "logo.png": {"base64": "iVBORw0K/w=="}})
    assert rest.get(path).text == "--- handler.py\ndef handle(event): ...\n\n--- logo.png\n(binary)\n"
    assert rest.get(path, headers=PAGE).headers["Location"] == f"/funcs/{rest.namespace}/functions/hello/code"
    assert rest.get(path, sub=None).json["code"] == "token_missing"
    assert rest.get(path, sub="bob").status_code == 403
    assert rest.get(f"/funcs/{rest.namespace}/source/nope").status_code == 404


def test_unknown_pages_are_pages_too(rest: Rest) -> None:
    for path in ("functions/nope", "widgets/x", "functions/Bad%20Name", "functions/x/y/z"):
        answer = rest.get(f"/funcs/{rest.namespace}/{path}", headers=PAGE)
        assert answer.status_code == 404 and "text/html" in answer.content_type, path
    assert rest.get(f"/funcs/{rest.namespace}/functions/nope").json["code"] == "not_found"


def test_languages(rest: Rest) -> None:
    shown = [
        rest.get("/funcs", sub=None, headers=PAGE | {"Accept-Language": wanted}).text
        for wanted in ("ru-RU,ru;q=0.9", "en", "de", "de, ru;q=0.5")
    ]
    assert ["<h1>Вход</h1>" in text for text in shown] == [True, False, False, True]
    assert '<html lang="ru"' in shown[0] and '<html lang="en"' in shown[2]
    rest.post("/funcs/preferences", data={"language": "ru", "theme": "dark"}, sub=None)
    chosen = rest.get("/funcs", sub=None, headers=PAGE | {"Accept-Language": "en"}).text
    assert "<h1>Вход</h1>" in chosen and 'data-theme="dark"' in chosen


def test_the_languages_have_the_same_texts() -> None:
    english, russian = (texts_of(language).groups for language in LANGUAGES)
    assert {group: set(texts) for group, texts in english.items()} == {group: set(texts) for group, texts in russian.items()}
    for group, texts in english.items():
        for name, text in texts.items():
            other = russian[group][name]
            assert isinstance(other, list) == isinstance(text, list), f"{group}.{name}"
            if isinstance(text, list):
                assert (len(text), len(other)) == (2, 3), f"{group}.{name}"
                continue
            assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", other)), f"{group}.{name}"


def test_every_text_is_used(repository: Path) -> None:
    """A text is named in a template, a module or a script, in full or up to a _ with the rest computed."""
    folders = ("sless/http/console", "static/console")
    files = [path for folder in folders for path in (repository / folder).rglob("*.*") if path.suffix in (".py", ".html", ".js")]
    sources = "".join(path.read_text() for path in files)
    computed = {"phases", "kinds", "statuses", "errors", "frame", "tabs", "runtimes"}

    def is_used(group: str, name: str) -> bool:
        starts = [name[: at + 1] for at, letter in enumerate(name) if letter == "_"]
        return f"{group}.{name}" in sources or any(f"{group}.{start}{end}" in sources for start in starts for end in ("'", '"', "${"))

    groups = {group: texts for group, texts in texts_of("en").groups.items() if group not in computed}
    assert not [f"{group}.{name}" for group, texts in groups.items() for name in texts if not is_used(group, name)]


def test_scripts_only_use_texts_that_their_page_sends(repository: Path) -> None:
    folder = repository / "static/console/pages"
    sent = {"ui", "kinds", "phases", "statuses", "triggers"}
    for path in folder.glob("*.js"):
        used = set(re.findall(r"\bt[n]?\([`'](\w+)\.", path.read_text()))
        assert used <= sent | {path.stem}, path.name


@pytest.mark.parametrize(("number", "form"), [(1, 0), (21, 0), (2, 1), (34, 1), (5, 2), (11, 2), (12, 2), (100, 2), (0, 2)])
def test_russian_plurals(number: int, form: int) -> None:
    assert form_of("ru", number) == form


def test_files_are_kept_by_browsers_and_change_their_path(rest: Rest) -> None:
    text = rest.get("/funcs", sub=None, headers=PAGE).text
    path = re.search(r'href="(/static/v-\w+/console/console.css)"', text)[1]
    answer = rest.get(path, sub=None)
    assert answer.status_code == 200 and "immutable" in answer.headers["Cache-Control"]
    packed = rest.get(path, sub=None, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.data) == answer.data
    assert "Accept-Encoding" in answer.headers["Vary"] and "Content-Encoding" not in answer.headers
    page = rest.get(f"/funcs/{rest.namespace}", headers=PAGE | {"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in page.headers, "it has the key of the session"
    other = rest.get(re.sub(r"v-\w+", "v-0", path), sub=None)
    assert other.status_code == 200 and "immutable" not in other.headers["Cache-Control"]
    assert rest.get("/static/v-0/../../setup.cfg", sub=None).status_code == 404
