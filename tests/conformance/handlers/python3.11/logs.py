"""Every way to write to stdout and stderr, by name. The name `logs` checks that the runtime's own modules are not importable."""

import concurrent.futures
import io
import logging
import os
import subprocess
import sys
import threading

pool = concurrent.futures.ThreadPoolExecutor(1)


def write(event):
    WRITERS[event["kind"]]()
    return "done"


def print_two():
    print("one")
    print("two", flush=True)


def long_line():
    print("x" * 20_000)
    print("after")


def raw_descriptor():
    os.write(1, b"raw out\n")
    os.write(2, b"raw err\n")


def child():
    subprocess.run(["echo", "from a child"], check=True)


def later():
    threading.Timer(0.05, print, ["from a timer"]).start()


def thread():
    writer = threading.Thread(target=print, args=("from a thread",))
    writer.start()
    writer.join()


def threads_apart():
    print("in two", end=" ")
    writer = threading.Thread(target=print, args=("whole",))
    writer.start()
    writer.join()
    print("pieces")


def log_two():
    logger = logging.getLogger("mine")
    logger.setLevel(logging.INFO)
    logger.warning("careful")
    logger.info("quiet")


def order():
    for i in range(20):
        os.write(1, f"raw {i}\n".encode())
        print("print", i)
        subprocess.run(["echo", f"child {i}"], check=True)


def fork():
    print("parent")
    pid = os.fork()
    if pid == 0:
        print("forked", flush=True)
        os._exit(0)
    os.waitpid(pid, 0)


def flood(event):
    """Writes `count` lines of 100 characters."""
    for i in range(event["count"]):
        print(f"{i:0100}")
    return "done"


WRITERS = {
    "print": print_two,
    "error_stream": lambda: print("warning", file=sys.stderr),
    "partial": lambda: print("no newline", end=""),
    "many_lines": lambda: print("a\n\nb"),
    "crlf": lambda: sys.stdout.write("windows\r\nline\r\n"),
    "ansi": lambda: print("\x1b[1;31mred\x1b[0m and \x1b]0;window\x07title\x1b[K plain"),
    "unicode": lambda: print("Grüße 日本 🎉"),
    "json_text": lambda: print('{"level": "info", "quote": "\\""}'),
    "control_characters": lambda: print("tab\there \x01 end"),
    "long_line": long_line,
    "invalid_utf8": lambda: os.write(1, b"bad \xff byte\n"),
    "raw_rest": lambda: os.write(1, b"raw without newline"),
    "child": child,
    "raw_descriptor": raw_descriptor,
    "later": later,
    "buffer": lambda: sys.stdout.buffer.write(b"bytes\n"),
    "thread": thread,
    "threads_apart": threads_apart,
    "pool": lambda: pool.submit(print, "from a pool").result(),
    "logging": log_two,
    "order": order,
    "fork": fork,
    "wrapped": lambda: print("wrapped", file=io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", write_through=True)),
    "surrogate": lambda: print("odd \ud800 char"),
}
