"""The control API: the operations of a `LocalCluster` over HTTP, for tests in any language.

`pocketmq up --control PORT` serves the API. `operations` is the table of operations, `models` the
types, from which `openapi` makes the document at ``/openapi.json``. The package needs the extra
`control` (starlette and uvicorn), and is imported only when the API is asked for.
"""
