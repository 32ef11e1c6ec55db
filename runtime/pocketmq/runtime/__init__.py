"""What every process of PocketMQ runs on: clock, tasks, settings files, the loop and its watch."""

import logging

# Everything that logs builds on this package. Python would print warnings of a library whose
# application does not care about logs; with this it is the application that decides.
logging.getLogger("pocketmq").addHandler(logging.NullHandler())

VERSION = "0.2.0"
"""The release that this code is, as `pocketmq --version` and the servers tell it."""
