"""Starts and ends the process in check, server or job mode."""

import _signal
import builtins
import faulthandler
import os
import sys
import threading
from _thread import start_new_thread

from .loading import CannotLoad, load_handler, prepare_path
from .own import standard
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
        builtins.exit = builtins.quit = sys.exit  # normally made by `site`, which takes long to import
        code = check(settings) if settings.mode == "check" else run_captured(settings)
    except WrongEnvironment as wrong:
        complain(str(wrong))
        code = EXIT_WRONG_ENVIRONMENT
    leave(code)


def complain(message):
    os.write(REAL_STDERR, f"sless runtime: {message}\n".encode("utf-8", "replace"))


REAL_STDERR = os.dup(2)


def check(settings):
    """Run check mode and return the exit code: whether the handler can be imported and called."""
    adapt_standard_library()
    prepare_path(settings.code_dir, settings.deps_dir)
    try:
        load_handler(settings.entrypoint)
    except CannotLoad as wrong:
        explain(wrong)
        return 1
    return 0


def explain(wrong):
    """Print the user's traceback, which ends with the reason, or what could not be loaded."""
    from .failures import log_traceback

    cause = wrong.__cause__
    if cause is not None:
        log_traceback(without_import_frames(cause))
    if cause is None or isinstance(cause, SystemExit):
        print(wrong, file=sys.stderr)
    sys.stderr.flush()


def without_import_frames(error):
    """Drop the import system's frames, so that the traceback of a failed import starts in the user's file."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(("<frozen importlib", os.path.dirname(__file__))):
        frames = frames.tb_next
    return error.with_traceback(frames) if frames is not None else error


def adapt_standard_library():
    """Start-up that all modes share, so that an import which succeeds in check mode succeeds in an instance."""
    from . import forks, imports, threads

    forks.install()
    threads.install()
    imports.install()


def run_captured(settings):
    """Run server or job mode and return the exit code."""
    from .calls import Slots
    from .capture import Capture

    faulthandler.enable(REAL_STDERR)  # after a crash nothing reads the pipes of this process
    slots = Slots(settings.concurrency)
    capture = Capture(slots.running)
    capture.install()
    adapt_standard_library()
    # explicitly, because process 1 of a container has no default action for signals
    _signal.signal(_signal.SIGTERM, lambda _number, _frame: os._exit(EXIT_TERMINATED))
    if settings.mode == "job":
        from . import job

        _signal.signal(_signal.SIGTERM, lambda _number, _frame: stop_soon())
        return job.run(settings, lambda: load_job(settings, capture), slots, capture)
    from .server import Server

    try:
        executor = load(settings, capture)
    except CannotLoad:
        capture.finish_idle()
        return 1
    Server(settings, executor, slots, capture).serve()
    capture.finish_idle()
    return 0


def load_job(settings, capture):
    from .signals import follow_handler

    executor = load(settings, capture)
    follow_handler(_signal.SIGTERM, stop_soon)
    return executor


def load(settings, capture):
    """Import the handler; log the reason when that fails."""
    from .execute import Executor

    prepare_path(settings.code_dir, settings.deps_dir)
    try:
        handler = load_handler(settings.entrypoint)
    except CannotLoad as wrong:
        explain(wrong)
        raise
    capture.finish_idle()
    return Executor(handler, settings)


def hold_lifeline(descriptor):
    """End this process and its children when the server dies, however it dies: the server's end of this pipe closes then."""
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
    """Handle SIGTERM in job mode: the job may run for 10 s more."""
    timer = threading.Timer(STOP_SEC, os._exit, [EXIT_TERMINATED])
    timer.daemon = True
    timer.start()


def leave(code):
    """End the process. Runs the user's exit functions; does not wait for the user's threads."""
    timer = threading.Timer(STOP_SEC, os._exit, [code])
    timer.daemon = True
    timer.start()
    standard("atexit")._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(code)
