"""Chooses the stream reader that the installed PySpark supports."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceStreamReader

from pocketmq.spark.streaming.features import StreamFeatures
from pocketmq.spark.streaming.options import StreamOptions
from pocketmq.spark.streaming.reader import Column, UnlimitedStreamReader


def stream_reader(
    options: StreamOptions, columns: Sequence[Column], features: StreamFeatures
) -> DataSourceStreamReader:
    """Makes the reader for the installed PySpark: with bounded batches if it knows them.

    Raises:
        RequirementError: an option needs a newer PySpark.
    """
    features.check_read(options)
    if not features.has_limits:
        return UnlimitedStreamReader(options, columns)
    from pocketmq.spark.streaming.limited_reader import MessageStreamReader

    return MessageStreamReader(options, columns)
