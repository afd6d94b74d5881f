"""`make marathon`: the postgres example on services of its own."""
