"""The Python 3.11 runtime of sless: loads a handler and calls it. Standard library only; the contract is `runtimes/README.md`.

    main        modes, start and end of the process        settings    environment → Settings
    loading     entrypoint → Handler                       calls       Call, the current call, slots
    server      listens, accepts, drains                   connection  one connection: requests in, answers out
    wire        HTTP/1.1 requests off the socket           exchange    an answer onto it
    control     health and log requests
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
- One blocking thread for each connection and one event loop for all coroutines: a blocked handler holds up nobody, and control
  requests need no slot, so health is answered while every slot is taken.
- sys.path is the user's folder, then the standard library, then their packages: as `python file.py` would have it.
"""
