from __future__ import annotations

from support.scrapes import families_of

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.metrics.exposition import Exposition, Family, Format, Kind, label_text
from pocketmq.runtime.metrics.instruments import Counts, Histogram, Histograms

LATENCY = Family("latency_seconds", Kind.HISTOGRAM, "How long", (1, 5))
DONE = Family("done_total", Kind.COUNTER, "How many")


def written(instrument: Histograms[str] | Counts[str]) -> dict[tuple[str, str, str], float]:
    out = Exposition(Format.TEXT, SystemClock())
    for _ in instrument.write(out, lambda key: label_text({"key": key})):
        pass
    return {
        (sample.name, sample.labels["key"], sample.labels.get("le", "")): sample.value
        for family in families_of(out.end().decode())
        for sample in family.samples
    }


def test_a_bound_belongs_to_its_bucket() -> None:
    histogram = Histogram((1, 5))
    for value in (0.5, 1, 1.1, 5, 5.1):
        histogram.observe(value)
    assert (histogram.counts, histogram.total) == ([2, 2, 1], 12.7)


def test_values_that_are_observed_together_count_as_one_by_one() -> None:
    one, other = Histogram((1, 5)), Histogram((1, 5))
    for values in ([1, 0.5], [], [6, 1, 2]):
        one.observe_all(values)
        for value in values:
            other.observe(value)
    assert (one.counts, one.total) == (other.counts, other.total)


def test_histograms_are_written_by_key() -> None:
    histograms: Histograms[str] = Histograms(LATENCY)
    histograms["a"].observe(2)
    histograms["b"].observe(9)
    found = written(histograms)
    assert found["latency_seconds_bucket", "a", "5.0"] == 1
    assert found["latency_seconds_bucket", "b", "5.0"] == 0
    assert found["latency_seconds_count", "b", ""] == 1
    assert found["latency_seconds_sum", "b", ""] == 9


def test_keys_beyond_the_limit_are_not_told() -> None:
    histograms: Histograms[str] = Histograms(LATENCY, series_max=2)
    counts: Counts[str] = Counts(DONE, series_max=2)
    for key in ("a", "b", "c", "a"):
        histograms[key].observe(1)
        counts.add(key)
    assert list(histograms) == ["a", "b"]
    assert written(counts) == {("done_total", "a", ""): 2, ("done_total", "b", ""): 1}
    assert written(histograms)["latency_seconds_count", "a", ""] == 2


def test_keys_take_a_form_with_few_values() -> None:
    histograms: Histograms[str] = Histograms(LATENCY, key_of=lambda key: key[:1])
    for key in ("ab", "ac", "a"):
        histograms[key].observe(1)
    assert written(histograms)["latency_seconds_count", "a", ""] == 3


def test_what_is_gone_is_forgotten() -> None:
    histograms: Histograms[str] = Histograms(LATENCY)
    counts: Counts[str] = Counts(DONE)
    for key in ("a", "b"):
        histograms[key].observe(1)
        counts.add(key)
    histograms.keep("b".__eq__)
    counts.keep("b".__eq__)
    assert list(histograms) == ["b"]
    assert written(counts) == {("done_total", "b", ""): 1}
