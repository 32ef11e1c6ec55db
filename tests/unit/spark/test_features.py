"""What older versions of PySpark cannot do is said, not tried."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pocketmq.spark.errors import RequirementError
from pocketmq.spark.features import StreamFeatures, installed_features
from pocketmq.spark.streaming.options import StreamOptions

OLD = StreamFeatures("4.0.1", has_limits=False, has_arrow_writes=False)


def test_the_newest_has_all() -> None:
    features = installed_features()
    assert features.version >= "4"
    if features.version >= "4.2":
        assert features.has_limits
        assert features.has_arrow_writes


def test_limits_need_a_version_that_has_them() -> None:
    OLD.check_read(StreamOptions(subscribe="T"))
    most = StreamOptions(subscribe="T", max_offsets_per_trigger=5)
    with pytest.raises(RequirementError, match=r"PySpark 4\.0\.1 .*'maxOffsetsPer.*4\.2"):
        OLD.check_read(most)
    least = StreamOptions(subscribe="T", min_offsets_per_trigger=5)
    with pytest.raises(RequirementError, match=r"PySpark 4\.0\.1 .*'minOffsetsPer.*4\.2"):
        OLD.check_read(least)


def test_writes_need_a_version_that_has_them() -> None:
    with pytest.raises(RequirementError, match=r"PySpark 4\.0\.1 .*4\.1 or newer.*foreachBatch"):
        OLD.check_write()
