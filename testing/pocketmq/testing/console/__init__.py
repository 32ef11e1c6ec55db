"""The console of a cluster for tests: its time, its faults, and what was done as a test.

`pocketmq up --control PORT --console` serves it, and `Cluster.console` does for a test that is
looked at with a debugger. The package needs the extra `console`, and is imported only when a
console is asked for.
"""
