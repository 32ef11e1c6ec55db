"""Commands that stream messages through standard input and output."""
