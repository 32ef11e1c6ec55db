"""Records ``golden.json``: what RocketMQ's own filter classes answer to random expressions.

Run by hand, from the repository, with Java and the jars of a RocketMQ distribution (its ``lib``):

    PYTHONPATH=tests python tests/unit/protocol/filters/record_golden.py LIB

With a seed and a number, for example ``LIB 7 50000``, nothing is written; as many other expressions
are compared with this project's answers, and the process fails if any differs.

``golden.json`` has
  version  of the RocketMQ jars
  maps     properties of messages
  answers  [expression, letters]: a letter for each of the maps, T true, F false, N null, E the
           evaluation fails; or only ! if the expression is refused
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.protocol.filter_answers import answer
from support.protocol.filter_samples import expression_texts, property_maps

HERE = Path(__file__).parent
OUTPUT = HERE / "golden.json"
SIZE_MAX = 150_000
SEED, TEXTS, MAPS = 1, 2_800, 20


def apache_answers(lib: Path, maps: list[dict[str, str]], texts: list[str]) -> list[str]:
    run = subprocess.run(
        ["java", "-cp", f"{lib}/*", str(HERE / "FilterAnswers.java")],
        input=json.dumps({"maps": maps, "texts": texts}).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    answers: list[str] = json.loads(run.stdout)
    assert len(answers) == len(texts)
    return answers


def record(lib: Path) -> None:
    maps, texts = property_maps(SEED, MAPS), expression_texts(SEED, TEXTS)
    answers = zip(texts, apache_answers(lib, maps, texts), strict=True)
    jar = next(lib.glob("rocketmq-filter-*.jar"))
    version = jar.stem.removeprefix("rocketmq-filter-")
    lines = ",\n".join(_dumps(pair) for pair in answers)
    maps_text = ",\n".join(_dumps(m) for m in maps)
    text = f'{{"version": "{version}",\n"maps": [\n{maps_text}\n],\n"answers": [\n{lines}\n]}}\n'
    assert len(text.encode()) <= SIZE_MAX, len(text.encode())
    OUTPUT.write_text(text, encoding="utf-8", newline="\n")


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compare(lib: Path, seed: int, count: int) -> None:
    maps, texts = property_maps(seed, 40), expression_texts(seed, count, length_max=400)
    wrong = 0
    letters: dict[str, int] = {}
    for text, theirs in zip(texts, apache_answers(lib, maps, texts), strict=True):
        for letter in theirs:
            letters[letter] = letters.get(letter, 0) + 1
        ours = answer(text, maps)
        if ours != theirs:
            wrong += 1
            print(f"{text!r}\n  ours   {ours}\n  theirs {theirs}")  # noqa: T201
    print(f"{wrong} of {count} differ; answers: {letters}")  # noqa: T201
    sys.exit(wrong > 0)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        record(Path(sys.argv[1]))
    else:
        compare(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
