"""A schema registry with Confluent's HTTP API: what its documentation promises, in memory.

Error codes are Confluent's: 40401 (no subject), 40402 (no version), 40403 (no schema), 409
(incompatible), 42201 (no schema), 42202 (no version number). Equal schemas have one id in all
subjects. A new schema of a subject must be able to read what the newest one wrote (BACKWARD, the
default) unless the subject's level is NONE.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTIONS = {
    *(("int", "long"), ("int", "float"), ("int", "double"), ("long", "float")),
    *(("long", "double"), ("float", "double"), ("string", "bytes"), ("bytes", "string")),
}
PROTO_FIELD = re.compile(r"^\s*(?:optional |repeated )?([\w.]+) (\w+) = (\d+)", re.MULTILINE)


class Refused(Exception):
    """The answer is an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Registry(ThreadingHTTPServer):
    """The registry; `schema_registry` runs it.

    Attributes:
        url: where it is.
        asked: method and path of all requests.
        user: ``name:password`` that requests must show; empty for none.
        token: that requests must show; empty for none.
        answer: what is answered instead, as status and body; None for what is right.
        gate: requests wait for it.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        scheme, host = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
        self.url = f"{scheme}://{host}:{self.server_address[1]}"
        self.asked: list[tuple[str, str]] = []
        self.user = self.token = ""
        self.answer: tuple[int, bytes] | None = None
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._levels: dict[str, str] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of clients that go away."""

    def respond(self, method: str, path: str, document: Any) -> Any:
        """Returns the answer to a request; raises Refused."""
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        with self._lock:
            match [method, *parts]:
                case ["GET", "schemas", "ids", number]:
                    return self._by_id(number)
                case ["GET", "subjects"]:
                    return list(self._subjects)
                case ["GET", "subjects", subject, "versions"]:
                    return list(range(1, len(self._ids(subject)) + 1))
                case ["GET", "subjects", subject, "versions", version]:
                    return self._stored(subject, self._version(subject, version))
                case ["POST", "subjects", subject, "versions"]:
                    return self._register(subject, _checked(document))
                case ["POST", "subjects", subject]:
                    return self._lookup(subject, _checked(document))
                case ["POST", "compatibility", "subjects", subject, "versions", version]:
                    held = self._schemas[
                        self._ids(subject)[self._version(subject, version) - 1] - 1
                    ]
                    found = self._problems(subject, held, _checked(document))
                    more = {"messages": found} if "verbose=true" in path else {}
                    return {"is_compatible": not found, **more}
                case ["PUT", "config", subject]:
                    self._levels[subject] = document["compatibility"]
                    return document
        raise Refused(404, 404, "HTTP 404 Not Found")

    def _by_id(self, number: str) -> Any:
        if not number.isdecimal() or not 0 < int(number) <= len(self._schemas):
            raise Refused(404, 40403, f"Schema {number} not found")
        return self._schemas[int(number) - 1]

    def _ids(self, subject: str) -> list[int]:
        if subject not in self._subjects:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        return self._subjects[subject]

    def _version(self, subject: str, version: str) -> int:
        count = len(self._ids(subject))
        if version == "latest":
            return count
        if not version.isdecimal() or int(version) < 1:
            raise Refused(
                422, 42202, f"The specified version '{version}' is not a valid version id."
            )
        if int(version) > count:
            raise Refused(404, 40402, f"Version {version} not found.")
        return int(version)

    def _stored(self, subject: str, version: int) -> Any:
        number = self._subjects[subject][version - 1]
        held = self._schemas[number - 1]
        return {"subject": subject, "version": version, "id": number, **held}

    def _register(self, subject: str, schema: dict[str, Any]) -> Any:
        ids = self._subjects.get(subject, [])
        if schema in self._schemas and self._schemas.index(schema) + 1 in ids:
            return {"id": self._schemas.index(schema) + 1}
        self._check_references(schema)
        if ids and (found := self._problems(subject, self._schemas[ids[-1] - 1], schema)):
            raise Refused(
                409,
                409,
                f"Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: {found}',
            )
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        self._subjects.setdefault(subject, []).append(number)
        return {"id": number}

    def _check_references(self, schema: dict[str, Any]) -> None:
        for reference in schema.get("references", []):
            if reference["version"] > len(self._subjects.get(reference["subject"], [])):
                raise Refused(422, 42201, f"Invalid schema: no reference {reference['name']}")

    def _lookup(self, subject: str, schema: dict[str, Any]) -> Any:
        ids = self._ids(subject)
        number = self._schemas.index(schema) + 1 if schema in self._schemas else 0
        if number not in ids:
            raise Refused(404, 40403, "Schema not found")
        return self._stored(subject, ids.index(number) + 1)

    def _problems(self, subject: str, held: dict[str, Any], new: dict[str, Any]) -> list[str]:
        if self._levels.get(subject) == "NONE":
            return []
        if held.get("schemaType") != new.get("schemaType"):
            return ["the schemas are of different types"]
        if "schemaType" in new:
            return proto_problems(new["schema"], held["schema"])
        return list(avro_problems(json.loads(new["schema"]), json.loads(held["schema"])))


def _checked(document: Any) -> dict[str, Any]:
    """The schema of a request, as it is kept."""
    kind, text = document.get("schemaType", "AVRO"), document.get("schema", "")
    if kind == "AVRO":
        try:
            known = json.loads(text)
            if isinstance(known, dict) and not isinstance(known["type"], (str, dict, list)):
                raise ValueError(text)
        except (ValueError, KeyError) as e:
            raise Refused(422, 42201, f"Invalid schema {document}: {e}") from e
        text = json.dumps(known, separators=(",", ":"))
    elif kind == "PROTOBUF" and "message" not in text:
        raise Refused(422, 42201, f"Invalid schema {document}")
    schema = {"schema": text}
    if kind != "AVRO":
        schema["schemaType"] = kind
    if document.get("references"):
        schema["references"] = document["references"]
    return schema


def avro_problems(reader: Any, writer: Any, path: str = "") -> Iterator[str]:
    """Says why values of a writer's schema cannot be read by a reader's."""
    if isinstance(writer, list):
        for each in writer:
            yield from avro_problems(reader, each, path)
    elif isinstance(reader, list):
        if all(list(avro_problems(each, writer, path)) for each in reader):
            yield f"MISSING_UNION_BRANCH at {path or '/'}"
    else:
        r, w = _kind(reader), _kind(writer)
        if r == w == "record":
            held = {field["name"]: field["type"] for field in writer["fields"]}
            for field in reader["fields"]:
                where = f"{path}/{field['name']}"
                if field["name"] in held:
                    yield from avro_problems(field["type"], held[field["name"]], where)
                elif "default" not in field:
                    yield f"READER_FIELD_MISSING_DEFAULT_VALUE at {where}"
        elif r == w == "array":
            yield from avro_problems(reader["items"], writer["items"], f"{path}/items")
        elif r != w and (w, r) not in PROMOTIONS:
            yield f"TYPE_MISMATCH at {path or '/'}: {w} becomes {r}"


def _kind(schema: Any) -> str:
    kind = schema if isinstance(schema, str) else schema["type"]
    return kind if isinstance(kind, str) else _kind(kind)


def proto_problems(reader: str, writer: str) -> list[str]:
    """Says which numbers of fields have got another type."""
    old = {number: kind for kind, _, number in PROTO_FIELD.findall(writer)}
    return [
        f"FIELD_KIND_CHANGED at {number}: {old[number]} becomes {kind}"
        for kind, _, number in PROTO_FIELD.findall(reader)
        if old.get(number, kind) != kind
    ]


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def _handle(self) -> None:
        registry = self.server
        registry.asked.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        registry.gate.wait()
        if registry.answer is not None:
            self._send(*registry.answer)
            return
        try:
            self._check_user()
            answer = registry.respond(self.command, self.path, json.loads(body or b"null"))
            self._send(200, json.dumps(answer).encode())
        except Refused as e:
            told = {"error_code": e.code, "message": e.message}
            self._send(e.status, json.dumps(told).encode())

    def _check_user(self) -> None:
        registry, shown = self.server, self.headers.get("Authorization", "")
        wanted = ""
        if registry.user:
            wanted = f"Basic {base64.b64encode(registry.user.encode()).decode()}"
        elif registry.token:
            wanted = f"Bearer {registry.token}"
        if wanted and shown != wanted:
            raise Refused(401, 401, "Unauthorized")

    def _send(self, status: int, content: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = _handle  # noqa: N815 - as http.server calls them

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def schema_registry(tls: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """Runs a registry for the length of the block."""
    with Registry(tls) as registry:
        thread = threading.Thread(target=registry.serve_forever, args=(0.01,), name="registry")
        thread.start()
        try:
            yield registry
        finally:
            registry.gate.set()
            registry.shutdown()
            thread.join()
