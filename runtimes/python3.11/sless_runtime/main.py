"""Modes; how the process starts and ends."""

import _signal
import builtins
import faulthandler
import os
import sys
import threading
from _thread import start_new_thread

from .loading import CannotLoad, load_handler, prepare_path
from .settings import WrongEnvironment, take_settings

EXIT_WRONG_ENVIRONMENT = 2
EXIT_TERMINATED = 128 + _signal.SIGTERM
STOP_SEC = 10.0
SIGKILL = 9


def run():
    try:
        settings = take_settings()
        if settings.lifeline_fd is not None:
            hold_lifeline(settings.lifeline_fd)
        builtins.exit = builtins.quit = sys.exit  # `site` would make these; importing it costs more than they are worth
        code = check(settings) if settings.mode == "check" else run_captured(settings)
    except WrongEnvironment as wrong:
        complain(str(wrong))
        code = EXIT_WRONG_ENVIRONMENT
    leave(code)


def complain(message):
    os.write(REAL_STDERR, f"sless runtime: {message}\n".encode("utf-8", "replace"))


REAL_STDERR = os.dup(2)


def check(settings):
    """Exit code of check mode: whether the handler can be imported and called."""
    prepare_path(settings.code_dir, settings.deps_dir)
    try:
        load_handler(settings.entrypoint)
    except CannotLoad as wrong:
        explain(wrong)
        return 1
    return 0


def explain(wrong):
    """The user's own traceback, then what could not be loaded."""
    from .failures import log_traceback

    if wrong.__cause__ is not None:
        log_traceback(without_import_frames(wrong.__cause__))
    print(wrong, file=sys.stderr, flush=True)


def without_import_frames(error):
    """The traceback of a failing import starts in the user's file, not in the machinery of importing."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(("<frozen importlib", os.path.dirname(__file__))):
        frames = frames.tb_next
    return error.with_traceback(frames) if frames is not None else error


def run_captured(settings):
    """Exit code of server and job mode."""
    from . import forks, threads
    from .calls import Slots
    from .capture import Capture

    faulthandler.enable(REAL_STDERR)  # what a crash writes to a pipe of its own process, nobody reads
    forks.install()
    slots = Slots(settings.concurrency)
    capture = Capture(slots.running)
    capture.install()
    threads.install()
    # explicitly, because the first process of a container has no default action
    _signal.signal(_signal.SIGTERM, lambda _number, _frame: os._exit(EXIT_TERMINATED))
    if settings.mode == "job":
        from . import job

        _signal.signal(_signal.SIGTERM, lambda _number, _frame: stop_soon())
        return job.run(settings, lambda: load(settings, capture), slots, capture)
    from .server import Server

    try:
        executor = load(settings, capture)
    except CannotLoad:
        capture.finish_idle()
        return 1
    Server(settings, executor, slots, capture).serve()
    capture.finish_idle()
    return 0


def load(settings, capture):
    """Imports the handler and logs why when that fails."""
    from .execute import Executor

    prepare_path(settings.code_dir, settings.deps_dir)
    try:
        handler = load_handler(settings.entrypoint)
    except CannotLoad as wrong:
        explain(wrong)
        raise
    tune_logging()
    capture.finish_idle()
    return Executor(handler, settings)


def tune_logging():
    """A logger without any handler writes what its level lets through, with the level before it; plain Python would drop INFO silently.

    Not a handler on the root logger: `logging.basicConfig()` of the user must go on working.
    """
    logging = sys.modules.get("logging")
    if logging is not None and logging.lastResort is not None and logging.lastResort.level == logging.WARNING:
        logging.lastResort.setLevel(logging.NOTSET)
        logging.lastResort.setFormatter(logging.Formatter("%(levelname)s %(message)s"))


def hold_lifeline(descriptor):
    """The server's end of this pipe closes when the server dies, however it dies; then this process and its children must not go on."""
    try:
        os.set_inheritable(descriptor, False)
    except OSError as wrong:
        raise WrongEnvironment(f"SLESS_LIFELINE_FD: expected an open descriptor, found {descriptor}: {wrong}") from None

    def wait():
        try:
            while os.read(descriptor, 4096):
                pass
        except OSError:
            return
        os.killpg(os.getpgrp(), SIGKILL)

    start_new_thread(wait, ())


def stop_soon():
    """SIGTERM while a job runs: it may finish, for 10 s."""
    timer = threading.Timer(STOP_SEC, os._exit, [EXIT_TERMINATED])
    timer.daemon = True
    timer.start()


def leave(code):
    """Ends the process: exit functions of the user's run, threads of the user's that go on do not hold it up."""
    import atexit

    timer = threading.Timer(STOP_SEC, os._exit, [code])
    timer.daemon = True
    timer.start()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(code)
