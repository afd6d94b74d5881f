"""The Terraform provider `sless`: resources and data sources over `sless.client`, plugin protocol 6.

PyPI's `tf` provides the messages, the type encodings and a servicer. This package adds what it lacks:

- `planning` plans from configuration and prior state, also on create, so that a code hash is known before anything is created and an
  attribute removed from the configuration returns to its default. The library plans updates only, without the configuration.
- `servicer` turns every exception into a diagnostic at the attribute it belongs to, and saves what was created before a failure:
  Terraform then marks the resource as tainted instead of forgetting it.
- `server` keeps serving after `StopProvider` until the running calls have ended, ignores the SIGINT that a terminal sends to the whole
  process group, and takes messages of up to 64 MB.
- `private` remembers what the server chose for attributes whose default its operator can change. They are sent only if the configuration
  names them.
- `write_only` keeps secrets out of plans and states. The library's messages do not know the mark, but pass on what they do not know.
- `fields` is the table of a resource's attributes: the schema, the plan, the requests, the state and the documentation come from it.

Only `main` reads the environment. Only this package imports `tf`, `grpc` and `msgpack`.
"""
