"""Bodies of requests about users."""

from __future__ import annotations

from pocketmq.protocol.bodies.users import AclInfo, UserInfo


def test_a_password_is_not_shown() -> None:
    info = UserInfo(username="u", password="hidden-secret", user_type="Super")
    assert "hidden-secret" not in repr(info)
    assert "'u'" in repr(info)
    assert repr(UserInfo()).count("None") == 4


def test_bodies_of_rocketmq_are_read() -> None:
    user = b'{"password":"p","userStatus":"enable","userType":"Normal","username":"u"}'
    assert UserInfo.decode(user).encode() == user
    acl = (
        b'{"policies":[{"entries":[{"actions":["Pub","Get"],"decision":"Allow",'
        b'"resource":"Topic:RT*"}],"policyType":"Custom"}],"subject":"User:u1"}'
    )
    assert AclInfo.decode(acl).encode() == acl
