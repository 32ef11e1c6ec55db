"""A job that presses Ctrl-C in the middle of what Spark does for it."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from pocketmq.spark.session import job_session


def main() -> None:
    with job_session("interrupted", 1) as spark:
        status = spark.sparkContext.statusTracker()

        def press() -> None:
            while not status.getActiveJobsIds():
                pass
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press).start()
        rows: Any = spark.range(10**15).selectExpr("sum(id * id)")
        rows.collect()


if __name__ == "__main__":
    main()
