"""Typed headers of requests and answers, used by both sides; one module a family."""
