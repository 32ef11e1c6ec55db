"""Says why a message is not consumed by a group: `pocketmq explain`.

`case` holds one message and one group with what servers said of them; `searching` finds the
message; each other module is a question that an answer may depend on, in terms of that case;
`explaining` asks them in order. `states` and `explanation` are what comes out.
"""
