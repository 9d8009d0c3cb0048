from __future__ import annotations

import email.utils
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.errors import ProviderError, RefusedRequest, TransportError
from whileai.providers import statuses

NOW = 1_790_000_000.0


def error_of(status: int, body: object = "", headers: dict[str, str] | None = None) -> ProviderError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return statuses.error_of(status, headers or {}, content, endpoint="openai:m at host", now=lambda: NOW)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((408, "request_timeout"), (409, "conflict"), (429, "rate_limited"), (500, "server_error")),
        *((502, "server_error"), (503, "server_error"), (504, "server_error"), (529, "overloaded")),
    ],
)
def test_what_may_heal_is_a_transport_error(status: int, kind: str) -> None:
    error = error_of(status, {"error": {"message": "try later"}})
    assert isinstance(error, TransportError)
    assert error.kind == kind
    assert str(error).startswith("openai:m at host: ")
    assert "try later" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "no"}}, "bad_request"),
        (401, {}, "auth"),
        (402, {}, "payment"),
        (403, {}, "permission"),
        (404, {}, "not_found"),
        (413, {}, "too_large"),
        (422, {}, "bad_request"),
        (501, {}, "bad_request"),
        (307, {}, "redirect"),
        (400, {"error": {"code": "context_length_exceeded"}}, "context_length"),
        (429, {"error": {"code": "insufficient_quota"}}, "insufficient_quota"),
        (429, {"error": {"code": None, "type": "insufficient_quota"}}, "insufficient_quota"),
        (
            429,
            {"error": {"type": "x", "details": {"error_code": "contract_spend_limit_reached"}}},
            "insufficient_quota",
        ),
    ],
)
def test_what_never_heals_is_refused(status: int, body: object, kind: str) -> None:
    error = error_of(status, body)
    assert isinstance(error, RefusedRequest)
    assert error.kind == kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": email.utils.formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": email.utils.formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Mon, 99 Foo 2026 00:00:00 GMT"}, None),
    ],
)
def test_both_forms_of_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert statuses.retry_after_s(headers, lambda: NOW) == seconds
    error = error_of(503, {}, headers)
    assert isinstance(error, TransportError)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "body", "names"),
    [
        (400, {"error": {"param": "response_format"}}, {"response_format"}),
        (400, {"error": {"param": "response_format.json_schema"}}, {"response_format"}),
        (422, {"detail": [{"loc": ["body", "max_completion_tokens"], "msg": "extra"}]}, {"max_completion_tokens"}),
        (422, {"detail": "no"}, set()),
        (422, {"detail": 7}, set()),
        (422, {"detail": [{"loc": ["header", "x"]}, 3, {"loc": "body"}, {"loc": ["body"]}]}, set()),
        (400, {"error": "response_format is not supported"}, set()),  # prose is not read
        (400, {"error": {"code": "context_length_exceeded"}}, None),
        (401, {"error": {"param": "response_format"}}, None),
    ],
)
def test_which_parameters_are_refused(status: int, body: object, names: set[str] | None) -> None:
    assert statuses.refused_parameters(status, json.dumps(body).encode()) == names


@given(
    st.integers(300, 599),
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text(max_size=40)),
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["error", "message", "code", "detail", "loc", "param", "details"]), inner
                )
            ),
            max_leaves=10,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_any_answer_is_some_error_that_pickles(status: int, headers: dict[str, str], content: bytes) -> None:
    error = statuses.error_of(status, headers, content, endpoint="e")
    statuses.refused_parameters(status, content)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.kind, str(again)) == (type(error), error.kind, str(error))
    assert isinstance(error, TransportError | RefusedRequest)


def test_a_long_message_is_shortened_and_on_one_line() -> None:
    error = error_of(400, {"error": {"message": "line\n" * 1000}})
    assert len(str(error)) < 500
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"a": {"b": 3}}, 3),
        ({"a": {"b": True}}, None),
        ({"a": 3}, None),
        (None, None),
        ({"a": {"b": -1}}, None),
        ({"a": {"b": "3"}}, None),
    ],
)
def test_a_token_count_is_a_whole_number_or_unknown(usage: object, tokens: int | None) -> None:
    assert statuses.count(usage, "a", "b") == tokens
