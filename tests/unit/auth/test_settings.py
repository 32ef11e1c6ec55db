"""The settings of authentication, checked as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.auth.settings import auth_settings, check_inner
from pocketmq.auth.users import User, UserType
from pocketmq.broker import BrokerConfig
from pocketmq.namesrv import NamesrvConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.signing import Credentials

USER = '{"username": "admin", "password": "hidden-secret"}'


def test_they_are_off_by_default() -> None:
    for config in (BrokerConfig(), NamesrvConfig()):
        settings = auth_settings(config)
        assert not settings.is_authenticating
        assert not settings.is_authorizing
        assert settings.users == []


def test_objects_may_be_json_or_mappings() -> None:
    settings = auth_settings(
        NamesrvConfig(
            init_authentication_user=USER,
            inner_client_authentication_credentials={"accessKey": "i", "secretKey": "s"},
        )
    )
    assert settings.init_user == User("admin", "hidden-secret", UserType.SUPER)
    assert settings.inner == Credentials("i", "s")
    assert [user.username for user in settings.users] == ["admin", "i"]


def test_a_listed_code_is_open_only_if_no_policy_is_asked_for_it() -> None:
    given: dict[str, Any] = {"authentication_enabled": True, "authentication_whitelist": "105, 34"}
    assert auth_settings(BrokerConfig(**given)).open_codes == {105, 34}
    given |= {"authorization_enabled": True, "authorization_whitelist": "34,10"}
    assert auth_settings(BrokerConfig(**given)).open_codes == {34}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"authorization_enabled": True}, "authenticationEnabled"),
        ({"init_authentication_user": "admin:hidden-secret"}, "initAuthenticationUser"),
        ({"init_authentication_user": '{"username":"hidden-secret"}'}, "initAuthenticationUser"),
        ({"init_authentication_user": {"username": "", "password": "hidden-secret"}}, "empty"),
        ({"inner_client_authentication_credentials": "[]"}, "innerClient"),
        ({"authentication_whitelist": "105;34"}, "authenticationWhitelist"),
        (
            {
                "init_authentication_user": USER,
                "inner_client_authentication_credentials": {
                    "accessKey": "admin",
                    "secretKey": "other-secret",
                },
            },
            "different secrets",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_no_secret_is(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        BrokerConfig(**given)
    assert "hidden-secret" not in str(caught.value)
    assert "other-secret" not in str(caught.value)


def test_servers_need_credentials_among_themselves() -> None:
    settings = auth_settings(BrokerConfig(authentication_enabled=True))
    with pytest.raises(ConfigError, match="innerClientAuthenticationCredentials here: because"):
        check_inner(settings, "because")
    check_inner(auth_settings(BrokerConfig()), "because")
