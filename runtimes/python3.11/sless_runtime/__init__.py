"""The Python 3.11 runtime of sless: loads a handler and calls it. Standard library only; the contract is `runtimes/README.md`.

    main        modes, start and end of the process        settings    environment → Settings
    loading     entrypoint → Handler                       calls       Call, the current call, slots
    server      listens, drains; the main thread           crew        threads that take turns; accepts, waits
    connection  one connection: requests in, answers out   streaming   answers piece by piece
    wire        HTTP/1.1 requests off the socket           exchange    an answer onto it
    control     health and log requests                    pace        which calls are likely to take time
    events      request → event                            forms       query strings, forms, multipart
    context     what a handler sees as `context`           aws         event of an AWS HTTP API
    execute     event → Answer (runs the handler)          aloop       coroutines and async iterators
    answers     result → Answer                            encode      JSON both ways
    failures    exception → Answer                         job         one event, one outcome
    capture     stdout/stderr → log lines                  loglines    lines, caps, the ring
    threads     threads belong to the call that started them   forks   children that are no servers

Decisions that bind:

- A start counts: nothing is imported before it is needed. `_json`, `_socket` and `_signal` stand in for `json`, `socket` and `signal`,
  whose Python halves (re, enum, selectors) cost more than the rest of the start. `threading` is imported early all the same, because
  it must be imported by the main thread.
- One thread leads: it waits for all connections and runs quick calls itself. A call that takes time goes on in its thread while another
  leads, so that a blocked handler holds up nobody; one event loop runs all coroutines. A thread for each connection took twice the
  processor time at 32 connections, because the interpreter's lock went from thread to thread, and its slowest calls took 100 ms.
- Control requests need no slot, so health is answered while every slot is taken.
- sys.path is the user's folder, then the standard library, then their packages: as `python file.py` would have it.
"""
