"""`make marathon`: runs the postgres example on its own PostgreSQL and server."""
