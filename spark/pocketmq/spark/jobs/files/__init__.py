"""Files of a job: its input, its output and its ledger."""
