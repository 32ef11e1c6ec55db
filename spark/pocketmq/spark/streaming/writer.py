"""The stream writer: the rows of micro-batches become messages of a topic, at least once.

A batch that Spark runs again, after a crash or for a task that failed, sends its rows again. With
marks (options markRows or writerId) a reader can drop such repeats: each batch that ends well is
committed under the writer's id and the batch's number (see `pocketmq.spark.marked.commits`), and of
two runs of a batch the first commit holds.

Spark tells a sink in Python the number of its batch only when the batch is over, and the id of its
query never. Both are known to the tasks, though, as local properties that Spark itself sets for the
jobs of a micro-batch: the query's id, which the checkpoint keeps, and the batch's number. The tasks
report them, and the number must be that of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import RequirementError
from pocketmq.spark.options import WriteOptions
from pocketmq.spark.plain_errors import plain_errors
from pocketmq.spark.writing.writer import WrittenRows, check_rows, commit_rows, report, write_rows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pocketmq.spark.rows.marks import WriterIdentity

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""Set by Spark's StreamExecution and MicroBatchExecution."""


class WrittenBatch(WriterCommitMessage):
    """What one task of a micro-batch has written.

    Attributes:
        rows: what, and where.
        writer: whose marks they bear; None for rows without marks.
        batch_id: of the micro-batch, as the task knows it.
    """

    def __init__(self, rows: WrittenRows, writer: WriterIdentity | None, batch_id: int) -> None:
        self.rows, self.writer, self.batch_id = rows, writer, batch_id


class MessageStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of one micro-batch: made on the driver, copied to each task.

    Args:
        options: of the write.
        schema: of the rows.
        queues: of the topic; all tasks count them alike.
        commit_brokers: which brokers could hold the writer's commits; none for rows without marks.
    """

    def __init__(
        self,
        options: WriteOptions,
        schema: StructType,
        queues: Sequence[MessageQueue],
        commit_brokers: Sequence[str],
    ) -> None:
        check_rows(options, schema, queues)
        self._options, self._queues = options, tuple(queues)
        self._commit_brokers = tuple(commit_brokers)

    @plain_errors()
    def write(self, iterator: Iterator[Any]) -> WrittenBatch:
        """Writes the rows of one partition of a batch.

        Raises:
            RowError: a row cannot be a message.
            RequirementError: this Spark does not say which batch of which query it is.
            OperatingError: the brokers do not take the rows.
        """
        writer, batch_id = None, -1
        if self._commit_brokers:
            batch_id = int(_local_property(BATCH_ID_PROPERTY))
            writer_id = self._options.writer_id or _local_property(QUERY_ID_PROPERTY)
            from pocketmq.spark.marked.commits import committing_broker
            from pocketmq.spark.rows.marks import WriterIdentity

            writer = WriterIdentity(writer_id, committing_broker(self._commit_brokers, writer_id))
        rows = write_rows(self._options, self._queues, writer, max(batch_id, 0), iterator)
        return WrittenBatch(rows, writer, batch_id)

    @plain_errors()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits the rows of a marked batch, and writes the report if one is wanted.

        Raises:
            OperatingError: the rows are in the topic, but the commit is not confirmed.
        """
        written = [m for m in messages if isinstance(m, WrittenBatch)]
        rows: list[WriterCommitMessage | None] = [m.rows for m in written]
        if written and (writer := written[0].writer) is not None:
            if any(m.batch_id != batchId for m in written):
                raise RequirementError(
                    f"the tasks of batch {batchId} took it for {written[0].batch_id}",
                    "write without markRows and writerId, this Spark numbers batches otherwise",
                )
            commit_rows(self._options, writer, batchId, rows)
        report(self._options, rows, batch_id=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leaves what was stored: the query fails with the reason of its task."""


def _local_property(name: str) -> str:
    context = TaskContext.get()
    value = None if context is None else context.getLocalProperty(name)
    if value is None:
        raise RequirementError(
            f"Spark did not give its tasks the property {name}, by which rows are marked",
            "write without markRows and writerId",
        )
    return value
