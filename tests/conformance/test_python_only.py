"""Features of Python only: the main thread, event loops of threads, logging without set-up, and user modules with standard names."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import RuntimeProcess, run_once, running

PYTHON = "python3.11"
ONE_CALL = {"SLESS_CONCURRENCY": "1"}

THREAD_BOUND = """
import asyncio, signal, sqlite3, threading

database = sqlite3.connect(":memory:")
database.execute("create table calls (n)")
loop = asyncio.get_event_loop()
local = threading.local()
local.name = "import"

async def answer():
    await asyncio.sleep(0.001)
    return threading.current_thread() is threading.main_thread()

def use():
    signal.setitimer(signal.ITIMER_REAL, 0)
    database.execute("insert into calls values (1)")
    return {"calls": database.execute("select count(*) from calls").fetchone()[0], "local": local.name}

def handle(event):
    return {**use(), "main": loop.run_until_complete(answer())}

async def handle_async(event):
    return {**use(), "main": await answer()}

def stream(event):
    yield str(use()["calls"])

async def stream_async(event):
    await answer()
    yield str(use()["calls"])
"""


def code(folder: Path, **files: str) -> dict[str, str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return {"SLESS_CODE_DIR": str(folder)}


def lines_of(process: RuntimeProcess, count: int) -> list[str]:
    return [line["text"] for line in process.wait_for_lines(lambda lines: len(lines) >= count)]


@pytest.mark.parametrize("entrypoint", ["handle", "handle_async"])
def test_one_call_at_a_time_runs_on_the_main_thread(tmp_path: Path, entrypoint: str) -> None:
    with running(PYTHON, f"handler.{entrypoint}", {**code(tmp_path, handler=THREAD_BOUND), **ONE_CALL}) as process:
        for number in (1, 2):
            assert process.call_json({}).json() == {"calls": number, "local": "import", "main": True}


@pytest.mark.parametrize("entrypoint", ["stream", "stream_async"])
def test_one_call_at_a_time_streams_from_the_main_thread(tmp_path: Path, entrypoint: str) -> None:
    with running(PYTHON, f"handler.{entrypoint}", {**code(tmp_path, handler=THREAD_BOUND), **ONE_CALL}) as process:
        assert [process.call_json({}).text_body() for _ in range(2)] == ["1", "2"]


def test_asyncio_run_in_a_handler_leaves_later_calls_a_loop(tmp_path: Path) -> None:
    source = "import asyncio\nasync def one():\n    return 1\ndef handle(event):\n    return asyncio.run(one())\n"
    source += (
        "async def later(event):\n    return await one()\ndef both(event):\n    return handle(event) if event['sync'] else later(event)\n"
    )
    with running(PYTHON, "handler.both", {**code(tmp_path, handler=source), **ONE_CALL}) as process:
        assert [process.call_json({"sync": sync}).json() for sync in (True, False, True, False)] == [1, 1, 1, 1]


def test_exit_in_a_call_on_the_main_thread_ends_that_call_only(tmp_path: Path) -> None:
    source = "import sys\ndef handle(event):\n    sys.exit(3) if event['exit'] else None\n    return 'ok'\n"
    with running(PYTHON, "handler.handle", {**code(tmp_path, handler=source), **ONE_CALL}) as process:
        assert process.call_json({"exit": True}).status == 500
        assert process.call_json({"exit": False}).text_body() == "ok"


def test_every_thread_has_an_event_loop(tmp_path: Path) -> None:
    source = "import asyncio\nasync def one():\n    return 1\n"
    source += "def handle(event):\n    return asyncio.get_event_loop().run_until_complete(one())\n"
    with running(PYTHON, "handler.handle", code(tmp_path, handler=source)) as process:
        assert [process.call_json({}).json() for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("env", [{}, ONE_CALL], ids=["threads", "main"])
def test_logging_needs_no_set_up(tmp_path: Path, env: dict[str, str]) -> None:
    source = "import logging\ndef handle(event):\n    logging.getLogger('shop').info('first')\n"
    source += "    logging.info('second')\n    logging.debug('never')\n"
    with running(PYTHON, "handler.handle", {**code(tmp_path, handler=source), **env}) as process:
        process.call_json({})
        assert lines_of(process, 2) == ["INFO first", "INFO:root:second"]


HIDING = ["logging", "re", "json", "asyncio", "inspect", "traceback", "queue", "types", "selectors", "atexit"]


@pytest.mark.parametrize("name", HIDING)
def test_user_module_with_a_standard_name_does_not_break_the_runtime(tmp_path: Path, name: str) -> None:
    source = f"import {name}\nasync def handle(event):\n    print('\\x1b[31mred')\n    if event['fail']:\n        raise ValueError('no')\n"
    source += f"    return getattr({name}, 'MINE', 'standard')\n"
    own = "standard" if name in ("types", "atexit") else "mine"  # imported by the interpreter before user code, or built in
    env = code(tmp_path, handler=source, **{name: "MINE = 'mine'\n"})
    with running(PYTHON, "handler.handle", env) as process:
        assert process.call_json({"fail": False}).text_body() == own
        assert process.call_json({"fail": True}).json()["error"] == "no"
        assert "red" in lines_of(process, 3)
        broken = process.call("POST", "/", [("Content-Type", "application/json")], b"{")
        assert (broken.status, broken.header("X-Sless-Fault")) == (400, "invalid_json")


def test_trial_import_runs_the_start_up_of_an_instance(tmp_path: Path) -> None:
    env = code(tmp_path, handler="import asyncio, logging\nassert logging.root.level == logging.INFO\ndef handle(event): pass\n")
    assert run_once(PYTHON, "handler.handle", env, mode="check").exit_code == 0


SIGTERM_HANDLER = """
import signal, sys, time

def say(number, frame):
    print("user handler")
    sys.exit(9)

signal.signal(signal.SIGTERM, say)

def handle(event):
    time.sleep(event.get("sec", 0))
    return "done"
"""


@pytest.mark.parametrize("env", [{}, ONE_CALL], ids=["threads", "main"])
def test_users_sigterm_handler_runs_before_the_runtimes(tmp_path: Path, env: dict[str, str]) -> None:
    with running(PYTHON, "handler.handle", {**code(tmp_path, handler=SIGTERM_HANDLER), **env}) as process:
        assert process.call_json({}).text_body() == "done"
        process.process.send_signal(signal.SIGTERM)
        assert process.finish() == 0
    assert any("user handler" in line for line in process.output)


def test_call_on_the_main_thread_is_finished_on_sigterm(tmp_path: Path) -> None:
    source = "import time\ndef handle(event):\n    print('started')\n    time.sleep(1)\n    return 'done'\n"
    with running(PYTHON, "handler.handle", {**code(tmp_path, handler=source), **ONE_CALL}) as process, process.connect() as connection:
        connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        process.wait_for_lines(lambda lines: any(line["text"] == "started" for line in lines))
        process.process.send_signal(signal.SIGTERM)
        answer: Any = connection.read_answer()
        assert (answer.status, answer.text_body()) == (200, "done")
        assert process.finish() == 0
