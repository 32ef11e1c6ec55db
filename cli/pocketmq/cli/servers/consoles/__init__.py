"""Consoles: of a cluster elsewhere, and in the processes of other servers."""
