"""Transactional messages: `Transactions` ends them, `CheckBack` asks producers about the open ones.

A transactional message waits as a record of `RMQ_SYS_TRANS_HALF_TOPIC` queue 0, the half message,
which no consumer gets. What became of it stands in `RMQ_SYS_TRANS_OP_HALF_TOPIC` queue 0; a commit
stores the real message first. In memory there is a byte for each half message from the oldest open
one on (`HalfMessageStates`), made anew from the two logs at the start.

A check puts the half message to the end of its queue again, with the number of checks, so that the
oldest open one moves on and neither log has to be kept for ever. Such a copy names its original in
the record and in its index entry: whichever of them a producer's answer names, it is one
transaction, and ended once.
"""
