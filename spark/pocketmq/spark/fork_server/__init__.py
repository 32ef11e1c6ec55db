"""Forks the Python processes of a local Spark session from one that has loaded their modules.

Spark starts a daemon for each kind of step of a query: to plan a write, to commit a write, to plan
a read, to run tasks, and more. Without the fork server each of them and its first worker load
PySpark, PyArrow and numpy anew.
"""
