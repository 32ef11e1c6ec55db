"""Requests and their answers, one module per family; broker and client import the same classes."""
