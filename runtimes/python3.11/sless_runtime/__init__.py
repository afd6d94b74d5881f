"""The Python 3.11 runtime of sless: loads a handler and calls it. Standard library only; the contract is `runtimes/README.md`.

    main        modes, start and end of the process        settings    environment → Settings
    loading     entrypoint → Handler                       calls       Call, the current call, slots
    server      listens, drains; the main thread           crew        the leading thread and its workers
    connection  one connection: requests in, answers out   streaming   streamed answers
    wire        reads HTTP/1.1 requests                    exchange    writes HTTP/1.1 answers
    control     health and log requests                    pace        predicts slow calls
    events      request → event                            forms       query strings, forms, multipart
    context     what a handler sees as `context`           aws         event of an AWS HTTP API
    execute     event → Answer (runs the handler)          aloop       coroutines and async iterators
    answers     result → Answer                            encode      JSON both ways
    failures    exception → Answer                         job         one event, one outcome
    capture     stdout/stderr → log lines                  loglines    lines, caps, the ring
    threads     attributes threads to calls                forks       forked children
    mainthread  calls on the main thread                   signals     SIGTERM and SIGINT
    imports     adapts logging and asyncio when imported   own         standard modules hidden by user code

Decisions:

- Start-up time matters: nothing is imported before it is needed. `_json`, `_socket` and `_signal` stand in for `json`, `socket`, `signal`,
  whose Python halves (re, enum, selectors) cost more than the rest of the start-up. `threading` is imported early nevertheless, because
  the main thread must import it.
- One thread leads: it waits for all connections and runs quick calls itself. A slow call keeps its thread while another thread takes the
  lead, so a blocked handler does not delay other calls. One event loop runs all coroutines. With one thread per connection, 32
  connections took twice the processor time, because the GIL moved between threads, and the slowest calls took 100 ms.
- With a concurrency of 1, import and calls run on the main thread, as on AWS Lambda: unchanged handlers rely on it (sqlite3 connections,
  threading.local, signal timers, get_event_loop at module level). A call blocked past its deadline does not block later ones: they run in
  worker threads.
- Control requests need no slot, so health is answered while every slot is taken.
- sys.path is the user's folder, then the standard library, then their packages, as with `python file.py`.
"""
