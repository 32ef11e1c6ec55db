"""Fields with which a program says for whom it asks."""

from __future__ import annotations

from pocketmq.protocol.requests.claims import CLAIM_LENGTH_MAX, Claim, claim_of


def test_a_claim_is_read_back() -> None:
    claim = Claim("ann", "10.0.0.1:5", "the disk is small")
    assert claim_of({"topic": "T", **claim.fields}) == claim


def test_what_is_empty_is_not_sent() -> None:
    assert Claim(reason="why").fields == {"pqReason": "why"}
    assert Claim().fields == {}
    assert claim_of({"topic": "T"}) is None


def test_a_claim_is_bounded_on_both_sides() -> None:
    long = "x" * (CLAIM_LENGTH_MAX + 1)
    assert len(Claim(long).fields["pqPerson"]) == CLAIM_LENGTH_MAX
    found = claim_of({"pqPerson": long, "pqReason": 7})
    assert found is not None
    assert (len(found.person), found.reason) == (CLAIM_LENGTH_MAX, "7")
