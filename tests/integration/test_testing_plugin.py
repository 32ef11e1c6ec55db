"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import importlib.util

import pytest

pytest_plugins = ["pytester"]

LOOPS = "asyncio_default_fixture_loop_scope=function"
PLUGIN = ("-p", "pocketmq.testing.plugin", "-p", "no:cacheprovider", "-q", "-o", LOOPS)

BOTH_KINDS = """
    import asyncio
    import pytest
    from pocketmq.client import Message

    def test_plain(pocketmq):
        pocketmq.create_topic("Orders", 1)
        with pocketmq.producer() as producer:
            producer.send(Message("Orders", b"plain", delay_ms=7_200_000))
        pocketmq.clock.advance(hours=2)
        assert pocketmq.published("Orders").bodies == [b"plain"]

    @pytest.mark.asyncio
    @pytest.mark.pocketmq(topics={"Orders": 1}, groups=["billing"])
    async def test_coroutine(pocketmq):
        found = []

        async def listen(messages):
            found.extend(m.body for m in messages)

        async with pocketmq.push_consumer("billing", listener=listen) as consumer:
            consumer.subscribe("Orders")
            async with pocketmq.producer() as producer:
                await producer.send(Message("Orders", b"coroutine"))
            await pocketmq.drain("billing")
        assert found == [b"coroutine"]
        assert (await pocketmq.published("Orders")).bodies == [b"coroutine"]
        assert pocketmq.dead_letters("billing") == []
"""

LEFTOVERS = """
    import pytest
    from pocketmq.client import Message
    from pocketmq.client.blocking import Producer

    @pytest.mark.parametrize("round", [1, 2])
    @pytest.mark.parametrize("is_plain", [False, True])
    def test_leaves_things_behind(pocketmq, is_plain, round):
        # Clients of the application may know nothing of the namespace.
        settings = {"namesrv": pocketmq.namesrv} if is_plain else pocketmq.client_settings
        view = pocketmq.in_namespace("") if is_plain else pocketmq
        assert view.stored("Orders", missing_ok=True) == []
        with Producer("shop", **settings) as producer:
            producer.send(Message("Orders", b"now"))
            pocketmq.clock.advance(hours=3)
            assert view.published("Orders").bodies == [b"now"]
            producer.send(Message("Orders", b"later", delay_level=18))
        left_open = pocketmq.push_consumer("billing", listener=lambda messages: None)
        left_open.start()
        left_open.subscribe("Orders")
"""

CLUSTERS = """
    import pytest

    addresses = []

    @pytest.mark.parametrize("round", [1, 2])
    def test_shared(pocketmq, pocketmq_cluster, round):
        addresses.append(pocketmq.namesrv)
        assert pocketmq_cluster.namesrv == pocketmq.namesrv
        assert list(pocketmq.brokers) == ["broker-a"]

    @pytest.mark.pocketmq(brokers=2, broker_settings={"messageDelayLevel": "1s 2s"})
    class TestTwo:
        def test_two(self, pocketmq):
            addresses.append(pocketmq.namesrv)
            assert len(pocketmq.brokers) == 2

        @pytest.mark.pocketmq(topics={"Orders": 3})
        def test_two_with_topic(self, pocketmq):
            addresses.append(pocketmq.namesrv)
            assert len(pocketmq.brokers) == 2
            with pocketmq.producer() as producer:
                assert len(producer.queues("Orders")) == 6

    def test_these_were_two_clusters():
        assert addresses[0] == addresses[1] != addresses[2] == addresses[3]
"""

MISTAKES = """
    import pytest

    @pytest.mark.pocketmq(broker=2)
    def test_unknown_option(pocketmq): ...

    @pytest.mark.pocketmq(2)
    def test_no_name(pocketmq): ...

    @pytest.mark.pocketmq(topics={"Or ders": 1})
    def test_illegal_topic(pocketmq): ...

    @pytest.mark.pocketmq(topics={"Orders": 1})
    def test_missing(pocketmq):
        pocketmq.published("Orders", 1, timeout_s=0)
"""

BROADCAST = """
    import pytest
    from pocketmq.client import Message
    from pocketmq.client.blocking import PushConsumer

    @pytest.mark.pocketmq(topics={"News": 1})
    @pytest.mark.parametrize("number", range(4))
    def test_everybody_gets_everything(pocketmq, number, monkeypatch, tmp_path):
        monkeypatch.setenv("HOME", str(tmp_path))
        everybody, found = {"message_model": "BROADCASTING"}, []
        listener = lambda messages: found.extend(m.body for m in messages)
        if number % 2:
            consumer = pocketmq.push_consumer("readers", listener=listener, **everybody)
        else:
            settings = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", **everybody}
            consumer = PushConsumer(
                "readers", listener=listener, **settings, **pocketmq.client_settings
            )
        consumer.subscribe("News")
        with pocketmq.producer() as producer:
            producer.send(Message("News", b"one"))
        with consumer:
            pocketmq.clock.advance(seconds=1, until=lambda: found)
        assert found == [b"one"]
        assert not list(tmp_path.iterdir())
        kept = pocketmq.core.local_offsets_dir
        assert [path.name for path in kept.iterdir()] == [pocketmq.namespace]

    def test_nothing_is_left(pocketmq):
        assert not list(pocketmq.core.local_offsets_dir.iterdir())
"""


SAME_TOPICS = """
    import pytest
    from pocketmq.client import Message

    @pytest.mark.pocketmq(topics={"Orders": 1})
    @pytest.mark.parametrize("number", range(6))
    def test_own_topics(pocketmq, number):
        assert pocketmq.stored("Orders") == []
        with pocketmq.producer() as producer:
            producer.send(Message("Orders", b"%d" % number))
        assert pocketmq.published("Orders").bodies == [b"%d" % number]
"""


SEEDED = """
    import pytest

    @pytest.mark.pocketmq(seed_file="cluster.yaml", topics={"Mine": 1})
    @pytest.mark.parametrize("number", range(2))
    def test_begins_with_a_seed(pocketmq, number):
        assert pocketmq.stored("Orders").bodies == [b"hello"]
        assert pocketmq.stored("Mine") == []
        with pocketmq.lite_pull_consumer("billing") as consumer:
            consumer.subscribe("Orders")
            assert [m.body for m in consumer.poll(10_000)] == [b"hello"]

    def test_begins_without(pocketmq):
        with pytest.raises(AssertionError):
            pocketmq.published("Orders", 1, timeout_s=0)

    @pytest.mark.pocketmq(seed_file="wrong.yaml")
    def test_wrong(pocketmq): ...
"""


def test_a_test_begins_with_a_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SEEDED)
    seed = "topics: {Orders: {queues: 1, messages: [hello]}}\n"
    offsets = "groups: {billing: {offsets: {Orders: earliest}}}\n"
    pytester.makefile(".yaml", cluster=seed + offsets, wrong="topic: {}")
    result = pytester.runpytest(*PLUGIN)
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*wrong.yaml:1:1: unknown key 'topic'; did you mean 'topics'?*"])


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_coroutines_and_plain_functions(pytester: pytest.Pytester, mode: str) -> None:
    pytester.makepyfile(BOTH_KINDS)
    result = pytester.runpytest(*PLUGIN, "-o", f"asyncio_mode={mode}", "--strict-markers")
    result.assert_outcomes(passed=2)


def test_nothing_leaks_from_test_to_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LEFTOVERS)
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=4)


def test_tests_with_other_options_have_another_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CLUSTERS)
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=5)


def test_mistakes_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MISTAKES)
    result = pytester.runpytest(*PLUGIN)
    result.assert_outcomes(errors=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the marker pocketmq: no such option: 'broker' (did you mean 'brokers'?)*",
            "*takes options by name, such as brokers=2, and was given 2*",
            "*Or ders*illegal*",
            "*topic Orders should hold 1 message and holds 0*",
        ]
    )
    for noise in ("During handling", "concurrent/futures", "inspection.py"):
        result.stdout.no_fnmatch_line(f"*{noise}*")


@pytest.mark.process
def test_each_worker_has_its_own_cluster(pytester: pytest.Pytester) -> None:
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    pytester.makepyfile(SAME_TOPICS)
    pytester.runpytest_subprocess(*PLUGIN, "-n", "2").assert_outcomes(passed=6)


def test_offsets_of_broadcasting_members_go_with_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BROADCAST)
    pytester.runpytest(*PLUGIN).assert_outcomes(passed=5)


@pytest.mark.process
def test_a_run_that_does_not_use_it_imports_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_imports():
            loaded = {name for name in sys.modules if name.startswith("pocketmq.")}
            assert loaded == {"pocketmq.testing", "pocketmq.testing.plugin"}
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1)
