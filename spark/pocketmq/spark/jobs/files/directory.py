"""A directory of any file system that Spark can write to: local, hdfs://, s3a:// and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pocketmq.spark.errors import JobError
from pocketmq.spark.jobs.failures import job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COPY_BYTES = 4096


class Directory:
    """Files below one path, named relative to it; Spark's Hadoop settings say how to get there.

    All methods raise JobError when the file system refuses.

    Args:
        spark: the session.
        path: with a scheme, or of Spark's default file system.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        with job(f"opening {path}"):
            base = jvm.org.apache.hadoop.fs.Path(path)
            self._files = base.getFileSystem(spark._jsc.hadoopConfiguration())
            self._base = self._files.makeQualified(base)

    def __str__(self) -> str:
        return str(self._base.toString()).removeprefix("file:")

    def uri(self, name: str) -> str:
        """Returns the whole path of a file or directory, for Spark."""
        return f"{self._base.toString()}/{name}"

    def exists(self) -> bool:
        """Whether the directory itself exists."""
        with job(f"looking for {self}"):
            return bool(self._files.exists(self._base))

    def names(self, name: str = "") -> list[str]:
        """Lists the names in a directory below, sorted; none if it does not exist."""
        path = self._path(name)
        with job(f"listing {path.toString()}"):
            if not self._files.exists(path):
                return []
            return sorted(str(found.getPath().getName()) for found in self._files.listStatus(path))

    def read(self, name: str) -> bytes:
        """Reads a file."""
        path = self._path(name)
        with job(f"reading {path.toString()}"):
            out = self._jvm.java.io.ByteArrayOutputStream()
            stream = self._files.open(path)
            try:
                self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(stream, out, _COPY_BYTES, False)
            finally:
                stream.close()
            return bytes(out.toByteArray())

    def create(self, name: str, data: bytes) -> bool:
        """Creates a file as a whole; returns False if it exists already."""
        path, unfinished = self._path(name), self._path(f"{name}.part")
        with job(f"writing {path.toString()}"):
            stream = self._files.create(unfinished, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()
            if self._files.exists(path):
                return False
            return bool(self._files.rename(unfinished, path))

    def move(self, name: str, new_name: str) -> None:
        """Renames a file, and creates the directory that its new name needs."""
        old, new = self._path(name), self._path(new_name)
        what = f"moving {old.toString()} to {new.toString()}"
        with job(what):
            self._files.mkdirs(new.getParent())
            if not self._files.rename(old, new):
                raise JobError(what, "the file system refuses")

    def delete(self, name: str = "") -> None:
        """Removes a file, or a directory with all that is in it, if it exists."""
        path = self._path(name)
        with job(f"deleting {path.toString()}"):
            self._files.delete(path, True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._base, name) if name else self._base
