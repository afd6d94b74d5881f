"""sless: serverless functions on one machine or one cluster, as one process.

Layers: leaves (errors, enums, ids, clock, log, config, metrics, assets, children, tokens) ← domain (pure rules) ← store, code, backend,
builder (I/O behind protocols of `domain.ports`) ← usecases, proxy, reconcile ← http, asgi ← app (the only part that chooses
implementations) ← server, cli. `tests/test_architecture.py` has the table.
"""
