"""One JSON API, and what serves it: all that people see of a cluster, and do to it."""
