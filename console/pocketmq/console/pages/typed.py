"""What was typed into a form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.types import Message

from pocketmq.console.web.gate import BODY_MAX
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import UsageError

FIELDS_MAX = 1000
"""Fields of a form."""

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class Typed:
    """The fields of a form.

    Args:
        texts: what was typed, by the names of the fields.
        files: the contents of files.
    """

    def __init__(self, texts: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> None:
        self._texts, self._files = dict(texts), dict(files or {})

    def __getitem__(self, name: str) -> str:
        """What was typed, as it is; empty if there is no such field: templates show it again."""
        return self._texts.get(name, "")

    def __contains__(self, name: str) -> bool:
        return bool(self[name])

    def names(self) -> list[str]:
        """The names of the fields."""
        return list(self._texts)

    def text(self, name: str) -> str | None:
        """A text without the blanks around it; None if nothing was typed."""
        return self[name].strip() or None

    def lines(self, name: str) -> str:
        """A text of several lines; browsers send their own ends of lines."""
        return self[name].replace("\r\n", "\n")

    def time_ms(self, name: str, what: str) -> int | None:
        """A time in UTC, in milliseconds since the epoch; None if nothing was typed.

        Args:
            name: of the field.
            what: its name in an error.

        Raises:
            UsageError: it is none.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(f"{what} is {text!r}: write a time as 2026-11-25T13:00:00") from None
        return round(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1000)

    def choice(self, name: str, what: str, known: Iterable[str]) -> str:
        """One of some words.

        Args:
            name: of the field.
            what: its name in an error.
            known: the words.

        Raises:
            UsageError: it is none of them.
        """
        if self[name] not in known:
            raise UsageError(f"{what} is {self[name]!r}: choose one of {', '.join(known)}")
        return self[name]

    def answer(self, name: str, what: str) -> bool | None:
        """``yes`` or ``no``; None if nothing was chosen.

        Raises:
            UsageError: it is something else.
        """
        given = self.choice(name, what, ("", "yes", "no"))
        return None if not given else given == "yes"

    def with_defaults(self, texts: Mapping[str, str]) -> Typed:
        """The same with texts where nothing was typed."""
        return Typed({**texts, **{name: text for name, text in self._texts.items() if text}})

    def number(self, name: str, what: str) -> int | None:
        """A whole number; None if nothing was typed.

        Args:
            name: of the field.
            what: its name in an error.

        Raises:
            UsageError: it is none.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{what} is {text!r}: write a whole number") from None

    def is_checked(self, name: str) -> bool:
        """Whether a box is checked."""
        return name in self

    def file(self, name: str) -> bytes:
        """The content of a file; empty if none was chosen."""
        return self._files.get(name, b"")


async def typed_of(request: Request) -> Typed:
    """Reads the form that a browser has sent.

    Raises:
        ProblemError: 413, or 415 if it is no form.
        UsageError: it cannot be read.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _FORMS:
        raise ProblemError(
            415, "The body is no form", f"the request's body is of the type {kind!r}",
            "use the page's form, or the API below /api/v1",
        )  # fmt: skip
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > BODY_MAX:
            raise ProblemError(
                413, "The form is too large", f"the form has more than {BODY_MAX} bytes",
                "send it in parts",
            )  # fmt: skip
        return message

    texts: dict[str, str] = {}
    files: dict[str, bytes] = {}
    # Without its application Starlette raises its own error, not an answer.
    scope = {name: value for name, value in request.scope.items() if name != "app"}
    bounded = Request(scope, receive)
    try:
        async with bounded.form(
            max_files=1, max_fields=FIELDS_MAX, max_part_size=BODY_MAX
        ) as fields:
            for name, value in fields.items():
                if isinstance(value, UploadFile):
                    files[name] = await value.read()
                else:
                    texts[name] = value
    except MultiPartException as e:
        raise UsageError(f"the form cannot be read: {e.message}") from e
    return Typed(texts, files)
