import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whileai.core.rollout import ToolCall
from whileai.spec.expressions import NAMES, ExpressionFailure, Expressions, check_expression
from whileai.spec.validation import Mistake

ROLLOUT = {
    "completion": "look <tool_call> look <tool_call> done",
    "final_text": "done",
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "done"}],
    "tool_calls": [ToolCall("lookup", {"order": 7, "get": "x"}, "1"), ToolCall("refund", {"order": 7}, "2")],
    "tool_results": [],
    "turns": 2,
    "prompt": "p",
    "reward": 1.0,
    "passed": True,
    "index": 3,
    "ticket": "T-1",
}


def value(text: str, **changes):
    expressions = Expressions([("key", text)], (*NAMES, "ticket"))
    row = {**ROLLOUT, **changes}
    (found,) = expressions.values([tuple(row[name] for name in expressions.names)])
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("completion.count('<tool_call>')", 2),
        ("'refund' in completion", False),
        ("tool_calls|length", 2),
        ("tool_calls|map(attribute='name')|join('>')", "lookup>refund"),
        ("tool_calls|selectattr('name', 'equalto', 'refund')|length", 1),
        ("tool_calls|rejectattr('name', 'in', ['refund'])|map(attribute='arguments.order')|list", [7]),
        ("tool_calls[0].arguments.get", "x"),
        ("tool_calls[0].arguments.get('order')", 7),
        ("tool_calls[0].arguments['order']", 7),
        ("messages[-1].role", "assistant"),
        ("messages[0].tool_calls is defined", False),
        ("messages[0].name|default('none')", "none"),
        ("completion.replace('look', 'x')|length", 32),
        ("(completion|lower).split()|unique|list|length", 3),
        ("turns + index * 2 - 2 ** 3 // 3 % 2", 8),
        ("1 if passed and not reward < 1 else 0", 1),
        ("ticket ~ '!'", "T-1!"),
        ("[3, 1, 2]|sort|first", 1),
        ("3.14159|round(2)", 3.14),
        ("completion[:4]", "look"),
        ("[1, 2]|sum", 3),
        ("true", True),
    ],
)
def test_values(text: str, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("toolcalls", "no variable 'toolcalls'", "did you mean 'tool_calls'?"),
        ("a + b", "no variable 'a', 'b'", ""),
        ("range(10)", "no variable 'range'", ""),
        ("loop.index", "no variable 'loop'", ""),
        ("self", "no variable 'self'", ""),
        ("lipsum()", "no variable 'lipsum'", ""),
        ("completion|lenght", "no filter 'lenght'", "did you mean 'length'?"),
        ("completion|attr('x')", "no filter 'attr'", ""),
        ("completion|center(1000000000)", "no filter 'center'", ""),
        ("tool_calls|map('uper')", "no filter that map can apply 'uper'", "did you mean 'upper'?"),
        ("tool_calls|map('replace', 'a', completion)", "no filter that map can apply 'replace'", ""),
        ("tool_calls|map(ticket)", "the filter that map can apply of map is no plain name", "write it in quotes"),
        ("tool_calls|select('emty')", "no test 'emty'", ""),
        ("completion is strin", "no test 'strin'", "did you mean 'string'?"),
        ("completion.conut('x')", "no method 'conut'", "did you mean 'count'?"),
        ("messages.append(1)", "no method 'append'", ""),
        ("messages[0].update({})", "no method 'update'", ""),
        ("completion.format(1)", "no method 'format'", ""),
        ("completion('x')", "only methods can be called", "such as completion.count('x')"),
        ("{{ completion }}", "is no expression: expected token ':', got '}'", "write it without braces"),
        ("completion turns", "is no expression: 'turns' is left over", "join the parts with and, or, +, ~"),
        ("completion }}", "is no expression: '}}' is left over", "join the parts with and, or, +, ~"),
        ("  ", "an expression is empty", "such as completion.count('<tool_call>')"),
        ("1e999", "a number that is not finite", "write a smaller one"),
        ("x" * 3000, "3000 characters are too long for an expression", "at most 2000"),
        ("(" * 200 + "1" + ")" * 200, "nested more than 60 levels deep", "write it as several terms"),
        ("not " * 400 + "1", "nested more than 60 levels deep", "write it as several terms"),
        ("+".join(["1"] * 300), "nested more than 60 levels deep", "write it as several terms"),
    ],
)
def test_what_is_refused_before_anything_runs(text: str, message: str, remedy: str):
    with pytest.raises(Mistake) as caught:
        check_expression(text, (*NAMES, "ticket"))
    assert caught.value.message == message
    if remedy:
        assert caught.value.remedy == remedy


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("text", "reason"),  # each would take minutes, or all memory, if it were computed
    [
        ("10**(10**7)", "a power of more than 1024 bits"),
        ("2**(2**(2**(2**(2**2))))", "a power of more than 1024 bits"),
        ("'a' * 100000000", "* works on numbers only, not on text"),
        ("100000000 * 'a'", "* works on numbers only, not on text"),
        ("[1] * 100000000", "* works on numbers only, not on a list"),
        ("'%1000000000d' % 1", "% works on numbers only, not on text"),
        ("completion.__class__", "no '__class__' on text"),
        ("completion['__class__']", "no '__class__' on text"),
        ("completion.__class__.__mro__", "no '__class__' on text"),
        ("tool_calls[0].__class__", "no '__class__' on ToolCall"),
        ("tool_calls[0]._asdict", "no '_asdict' on ToolCall"),
        ("messages.append", "no 'append' on a list"),
        ("messages[0].clear", "no 'clear' on a mapping"),
        ("completion.count", "no 'count' on text"),
        ("completion|list|join(completion)", "join would make 10,000,100,000 characters"),
        ("completion.replace('x', completion)", "replace would make 10,000,000,000 characters"),
        ("completion|replace('', completion)", "replace would make 10,000,200,000 characters"),
        ("completion.join(completion|list)", "join would make 10,000,100,000 characters"),
        ("1|round(100000000)", "round to 100000000 places"),
        ("1|round(-100000000)", "round to -100000000 places"),
        ("[[1]]|sum(start=[])", "sum works on numbers only"),
        ("messages[0].nothing.more", "no 'nothing' on a mapping"),
        ("1 / 0", "ZeroDivisionError"),
        ("messages[99].role", "no"),
        ("turns < completion", "not supported between"),
        ("10.0 ** 999", "OverflowError"),
    ],
)
def test_what_an_expression_cannot_reach_or_make_ends_in_an_error(text: str, reason: str):
    with pytest.raises(ExpressionFailure) as caught:
        value(text, completion=LONG)
    assert reason in caught.value.reason


def test_the_callers_messages_stay_as_they_are():
    before = [dict(message) for message in ROLLOUT["messages"]]
    assert value("messages|reverse|list|length") == 2
    assert value("messages|sort(attribute='role')|length") == 2
    assert ROLLOUT["messages"] == before


def test_expressions_of_a_spec_run_as_one_and_say_which_of_them_failed():
    expressions = Expressions([("a", "turns"), ("b", "6 // turns"), ("c", "index")], NAMES)
    assert expressions.names == ("index", "turns")
    assert expressions.values([(0, 1), (1, 3)]) == [1, 6, 0, 3, 2, 1]
    with pytest.raises(ExpressionFailure) as caught:
        expressions.values([(0, 1), (1, 0)])
    assert (caught.value.key, caught.value.row) == ("b", 1)


def test_expressions_without_variables_have_values_too():
    assert Expressions([("a", "1 + 1")], NAMES).values([(), ()]) == [2, 2]


def test_a_column_may_have_any_name_that_jinja_uses_itself():
    expressions = Expressions([("a", "loop ~ self ~ rows ~ v_x")], (*NAMES, "loop", "self", "rows", "v_x"))
    row = {"loop": "l", "self": "s", "rows": "r", "v_x": "v"}
    assert expressions.values([tuple(row[name] for name in expressions.names)]) == ["lsrv"]


@given(st.text(alphabet="abc123 ()[]{}.,|~+-*/%<>=!'\"_\\\n", max_size=60))
@settings(max_examples=300)
def test_no_text_does_worse_than_a_mistake_or_a_failure(text: str):
    try:
        expressions = Expressions([("key", text)], ("a", "b", "c"))
        expressions.values([tuple("xyz"[: len(expressions.names)])])
    except (Mistake, ExpressionFailure):
        pass
