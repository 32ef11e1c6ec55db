"""POP consumption: what groups got and have not acknowledged, whichever member has it."""
