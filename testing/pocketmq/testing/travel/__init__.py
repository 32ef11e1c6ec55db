"""Time that jumps: the clock of a cluster, and how a jump waits until nothing moves."""
