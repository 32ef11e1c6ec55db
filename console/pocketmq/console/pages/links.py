"""Links of pages that carry a query on."""

from __future__ import annotations

from urllib.parse import urlencode

from msgspec import Struct, structs

from pocketmq.console.api.bodies.messages import BrowseQuery
from pocketmq.console.api.finding.bodies import DOWNLOADED_MAX, DownloadQuery
from pocketmq.console.api.finding.browsing import LATEST


def query_text(query: Struct, **changed: object) -> str:
    """A query with some fields changed, for a link; what is as by default is left out."""
    fields = {field.name: field for field in structs.fields(query)}
    values = {**structs.asdict(query), **changed}
    kept = {
        fields[name].encode_name: value
        for name, value in values.items()
        if value is not None and value != fields[name].default
    }
    return "?" + urlencode(kept) if kept else "?"


def download_text(query: BrowseQuery) -> str:
    """The query of the download of what a page shows, and of all that fits behind it."""
    is_of_newest = query.start == LATEST and query.cursor is None
    names = {field.name for field in structs.fields(DownloadQuery)}
    kept = {name: value for name, value in structs.asdict(query).items() if name in names}
    limit = query.limit if is_of_newest else DOWNLOADED_MAX
    return query_text(DownloadQuery(**{**kept, "limit": limit}))
