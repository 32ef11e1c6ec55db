"""Makes descriptors of the text of .proto files, by protoc.

protoc runs in a process of its own: what it says of a wrong text goes to its standard error, and a
text that it cannot bear does not end this process.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from pocketmq.schemas.errors import SchemaError

TIMEOUT_S = 20.0
NAME_LENGTH_MAX = 255
_REASON_LENGTH_MAX = 500


def compiled(name: str, files: Mapping[str, str]) -> FileDescriptorSet:
    """Compiles a file of Protobuf.

    Args:
        name: of the file.
        files: its text and those of the files that it imports, by the names of their imports.
            Google's own types need no file.

    Returns:
        The descriptors of all files, each behind those that it imports; the file's own is the last.

    Raises:
        SchemaError: the text is wrong, a file is missing, or grpcio-tools is not installed.
    """
    if importlib.util.find_spec("grpc_tools") is None:
        raise SchemaError(
            "schemas of Protobuf need grpcio-tools, which is not installed: "
            "pip install 'pocketmq[schemas]'"
        )
    with tempfile.TemporaryDirectory(prefix="pocketmq-proto-") as folder:
        for path, text in files.items():
            _write(Path(folder), path, text)
        target = Path(folder) / "descriptors"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={target}", name],
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
                cwd=folder,
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise SchemaError(f"protoc could not compile the schema: {e}") from e
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").replace(f"{folder}/", "").strip()
            raise SchemaError(f"the text is no schema of Protobuf: {said[:_REASON_LENGTH_MAX]}")
        try:
            return FileDescriptorSet.FromString(target.read_bytes())
        except (OSError, DecodeError) as e:
            raise SchemaError(f"protoc wrote no descriptors of the schema: {e}") from e


def _write(folder: Path, name: str, text: str) -> None:
    """Writes a file below a folder; names come from the registry.

    Raises:
        SchemaError: the name leads elsewhere.
    """
    path = PurePosixPath(name)
    if (
        path.is_absolute()
        or not path.parts
        or any(part == ".." for part in path.parts)
        or not name.isprintable()
        or len(name) > NAME_LENGTH_MAX
        or "\\" in name
    ):
        raise SchemaError(f"{name[:NAME_LENGTH_MAX]!r} is no name of an imported file")
    target = folder / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as e:
        raise SchemaError(f"the imported file {name} cannot be laid down: {e}") from e
