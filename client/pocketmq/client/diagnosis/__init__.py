"""`pocketmq doctor`: why it does not work, from where one stands, and what helps.

`cluster_state` asks once what all checks need; each other module is a check or a few of one kind,
which take that state and return findings; `examination` runs them all.
"""
