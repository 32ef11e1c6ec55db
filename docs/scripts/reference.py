"""Writes what is made of the sources: pages of the documentation, and the blocking client.

``python docs/scripts/reference.py`` writes them; with ``--check`` it only says, by its exit code,
whether they are what it would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

import blocking_client
from code_pages import tables
from command_pages import pages
from struct_pages import table

from pocketmq.broker.config.config import RANGES, BrokerConfig
from pocketmq.cli.main import command
from pocketmq.client.producers.transactions import TransactionProducerSettings
from pocketmq.client.settings import (
    InstanceSettings,
    LitePullSettings,
    MemberSettings,
    ProducerSettings,
    PullConsumerSettings,
    PushSettings,
    SimpleConsumerSettings,
)
from pocketmq.namesrv import NamesrvConfig
from pocketmq.proxy.standalone.config import ProxyConfig

DOCS = Path(__file__).parents[1]
BLOCKING_CLIENT = DOCS.parent / "client/pocketmq/client/blocking/clients.py"
MADE = "<!-- Made by `make reference` of the sources: change those, not this page. -->"

CONFIGURATION = """# Configuration

{made}

What is not set keeps its default. A name that does not exist is an error, which says the nearest
right one. How `pocketmq` finds a cluster, and profiles: [Operations](operations.md#profiles).

## Brokers

`pocketmq broker -c broker.yaml`; keys are RocketMQ's where RocketMQ has the setting. What may be
changed while a broker runs is changed with `pocketmq broker config set KEY=VALUE`.

{broker}

## Name servers

`pocketmq namesrv -c namesrv.yaml`.

{namesrv}

## Proxies

`pocketmq proxy -c proxy.yaml`: RocketMQ 5's gRPC in front of a cluster
([RocketMQ 5](rocketmq5.md)).

{proxy}

## Clients

Keyword arguments of producers and consumers: `Producer("shop", send_timeout_ms=5_000)`.

### All clients

{instance}

### Producers

{producer}

### Transaction producers

These, and those of all producers.

{transaction}

### Push and lite pull consumers

{member}

### Push consumers

These, and those above.

{push}

### Lite pull consumers

These, and those above; some defaults differ.

{lite}

### Pull consumers

{pull}

### Simple consumers

{simple}
"""

COMMANDS = """# Command line

{made}

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 it could not
be done, 2 the command's words or a file it reads are wrong. Every command that asks a cluster takes
`--namesrv` or `--profile` ([in this order](operations.md#profiles)); `-h` shows its options.

{commands}
"""

CODES = """# Request codes

{made}

Which code is handled where, here and in RocketMQ 5.5.0, which tests speak it, and which rights a
user needs for it on servers with authorization: all parts between semicolons, and of actions with
"or" between them any one. Super users need none. A code that is in no table is refused with 3,
REQUEST_CODE_NOT_SUPPORTED.

## Brokers

{broker}

## Name servers

{namesrv}

## Clients

What brokers ask of clients, and tell them.

{client}

## Refused with a reason

{refused}
"""


def made_pages() -> dict[Path, str]:
    """The text of each page and module."""
    configuration = CONFIGURATION.format(
        made=MADE,
        broker=table(BrokerConfig, is_python=False, ranges=RANGES),
        namesrv=table(NamesrvConfig, is_python=False),
        proxy=table(ProxyConfig, is_python=False),
        instance=table(InstanceSettings, is_python=True),
        producer=table(ProducerSettings, is_python=True),
        transaction=table(TransactionProducerSettings, is_python=True),
        member=table(MemberSettings, is_python=True),
        push=table(PushSettings, is_python=True),
        lite=table(LitePullSettings, is_python=True),
        pull=table(PullConsumerSettings, is_python=True),
        simple=table(SimpleConsumerSettings, is_python=True),
    )
    commands = COMMANDS.format(made=MADE, commands="\n\n".join(pages(command())))
    codes = CODES.format(made=MADE, **tables())
    return {
        DOCS / "configuration.md": configuration,
        DOCS / "cli.md": commands,
        DOCS / "codes.md": codes,
        BLOCKING_CLIENT: blocking_client.module_source(),
    }


def main(*words: str) -> int:
    """Writes the pages and the module, or with ``--check`` compares them; the exit code."""
    made = made_pages()
    stale = [path for path, text in made.items() if _text(path) != text]
    for path in stale:
        if "--check" not in words:
            path.write_text(made[path], encoding="utf-8")
    if stale and "--check" in words:
        names = ", ".join(path.name for path in stale)
        sys.stderr.write(f"{names}: not what the sources say; run make reference\n")
        return 1
    return 0


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
