"""The checks of `pocketmq doctor`: each finds causes of failures as the caller sees the cluster.

`cluster_state` asks the servers once for the facts of all checks; each other module is one check or
a few of one kind, which take that state and return findings; `examination` runs all checks.
"""
