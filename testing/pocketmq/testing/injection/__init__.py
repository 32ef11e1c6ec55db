"""How faults get in: rules, and the handlers and files that they stand before."""
