"""Bodies about dead letters and their redrives."""

from __future__ import annotations

import pytest

from pocketmq.protocol.bodies.redrives import (
    LetterEdit,
    LetterSelection,
    LetterState,
    Redrive,
    RedriveAction,
    RedriveOrder,
    RedriveState,
)


def test_an_order_comes_through_as_it_was() -> None:
    order = RedriveOrder(
        group="g",
        action=RedriveAction.DISCARD,
        selection=LetterSelection(message_ids=["a"], where="x = 1", states=[LetterState.OPEN]),
        to="*",
        edit=LetterEdit(merge_patch='{"a": null}', properties={"b": "c"}, tags=""),
        rate=2.5,
        reason="because",
    )
    for quote_keys in (False, True):
        assert RedriveOrder.decode(order.encode(quote_keys=quote_keys)) == order


@pytest.mark.parametrize(
    ("edit", "is_empty"),
    [
        (LetterEdit(), True),
        (LetterEdit(body=""), False),
        (LetterEdit(tags=""), False),
        (LetterEdit(removed_properties=["a"]), False),
        (LetterEdit(properties={"a": "b"}), False),
    ],
)
def test_an_edit_is_empty_if_nothing_changes(edit: LetterEdit, is_empty: bool) -> None:
    assert edit.is_empty is is_empty


def test_a_redrive_counts_what_is_done() -> None:
    redrive = Redrive(
        redrive_id="r", broker_name="b", order=RedriveOrder(group="g"),
        state=RedriveState.PAUSED, sent=1, discarded=2, reopened=3, refused=4,
    )  # fmt: skip
    assert redrive.done == 10
    assert {state for state in RedriveState if state.is_active} == {"running", "paused"}
