"""The control API: what a `LocalCluster` can do, over HTTP, for tests in any language.

`pocketmq up --control PORT` serves it. `operations` is the table of all that can be asked, `models`
the types, from which `openapi` makes the document at ``/openapi.json``. Needs the extra `control`
(starlette and uvicorn), and is imported by nobody who does not ask for it.
"""
