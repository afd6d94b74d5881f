"""sless: serverless functions on one machine or one cluster, as one process.

The house: leaves (errors, ids, clock, log, config, metrics, assets, children, tokens) ← domain (pure rules) ← store, code, backend, builder
(I/O behind protocols of `domain.ports`) ← usecases, proxy, reconcile ← http, asgi ← app (the only place that knows which parts are
real) ← server, cli. `tests/test_architecture.py` holds the table.
"""
