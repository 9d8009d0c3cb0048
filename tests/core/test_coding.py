import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.coding import Action, coding_actions


def call(name: str, result: str | None = None, **arguments) -> list[dict]:
    """One tool call with its result, as messages."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    ]
    return messages + ([] if result is None else [{"role": "tool", "tool_call_id": "c1", "content": result}])


def said(messages: list[dict]) -> list[tuple]:
    """Verb, target, removed, added, whole of everything but the runs."""
    return [tuple(action)[:5] for action in coding_actions(messages) if action.verb != "run"]


PATCH = (
    "*** Begin Patch\n*** Update File: src/a.py\n@@\n-old\n+new\n"
    "*** Add File: b.py\n+hi\n*** Delete File: c.py\n*** End Patch"
)
DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n--- a/gone.py\n+++ /dev/null\n@@\n-q\n"
PATCHED = [
    ("write", "src/a.py", "old", "new", False),
    ("write", "b.py", "", "hi", True),
    ("delete", "c.py", None, None, False),
]
DIFFED = [("write", "x.py", "a", "b", False), ("delete", "gone.py", None, None, False)]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (call("str_replace_editor", command="view", path="/t/a.py"), [("read", "/t/a.py", None, None, False)]),
        (call("str_replace_editor", command="create", path="/t/a.py", file_text="x"),
         [("write", "/t/a.py", None, "x", True)]),
        (call("str_replace_editor", command="str_replace", path="/t/a.py", old_str="x", new_str="y"),
         [("write", "/t/a.py", "x", "y", False)]),
        (call("str_replace_editor", command="insert", path="/t/a.py", insert_line=3, new_str="y"),
         [("write", "/t/a.py", "", "y", False)]),
        (call("str_replace_editor", command="undo_edit", path="/t/a.py"), [("undo", "/t/a.py", None, None, False)]),
        (call("Read", file_path="/t/a.py"), [("read", "/t/a.py", None, None, False)]),
        (call("Write", file_path="/t/a.py", content="z"), [("write", "/t/a.py", None, "z", True)]),
        (call("Edit", file_path="/t/a.py", old_string="x", new_string=""), [("write", "/t/a.py", "x", "", False)]),
        (call("MultiEdit", file_path="/t/a.py", edits=[{"old_string": "1", "new_string": "2"}, {"old_string": "3"}]),
         [("write", "/t/a.py", "1", "2", False), ("write", "/t/a.py", "3", "", False)]),
        (call("append_file", path="a.py", content="z"), [("write", "a.py", "", "z", False)]),
        (call("delete_file", path="./a.py"), [("delete", "a.py", None, None, False)]),
        (call("WebFetch", url="https://x.org/a", prompt="?"), [("fetch", "https://x.org/a", None, None, False)]),
        (call("open_urls", urls=["https://a", "https://b"]),
         [("fetch", "https://a", None, None, False), ("fetch", "https://b", None, None, False)]),
        (call("apply_patch", input=PATCH), PATCHED),
        (call("shell", command=["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]), PATCHED),
        (call("bash", command=f"cd /t && git apply <<'EOF'\n{DIFF}EOF"), DIFFED),
        (call("edit", diff=DIFF), DIFFED),
        (call("bash", command="cat a b 2>/dev/null | grep -n x c"),
         [("read", "a", None, None, False), ("read", "b", None, None, False), ("read", "c", None, None, False)]),
        (call("bash", command="cat > n.py <<'EOF'\nx\nEOF"), [("write", "n.py", None, "x\n", True)]),
        (call("bash", command="echo hi >> n.py"), [("write", "n.py", "", "hi", False)]),
        (call("bash", command="printf 'a' | tee -a n.py"), [("write", "n.py", "", None, False)]),
        (call("bash", command="sed -i 's/assert a/pass/' t.py"), [("write", "t.py", "assert a", "pass", False)]),
        (call("bash", command="sed -i.bak -e 's|a/b|c|g' -e '3d' t.py"),
         [("write", "t.py", None, "3d\ns|a/b|c|g", False)]),
        (call("bash", command="sed -n 1,5p t.py; perl -pi -e 's/x/y/' t.py"), [("write", "t.py", "x", "y", False)]),
        (call("bash", command="rm -rf tests && git rm a.py"),
         [("delete", "tests", None, None, False), ("delete", "a.py", None, None, False)]),
        (call("bash", command="mv a.py b.py; cp x.py y.py dest/"),
         [("delete", "a.py", None, None, False), ("write", "b.py", None, None, True),
          ("read", "x.py", None, None, False), ("write", "dest/x.py", None, None, True),
          ("read", "y.py", None, None, False), ("write", "dest/y.py", None, None, True)]),
        (call("bash", command="curl -sL https://x.org/a.patch -o a; git clone https://x.org/r.git"),
         [("fetch", "https://x.org/a.patch", None, None, False),
          ("fetch", "git clone https://x.org/r.git", None, None, False)]),
        (call("bash", command="cd sub && python - <<'EOF'\nopen('a.py', 'w').write('x')\nEOF"),
         [("write", "sub/a.py", None, "open('a.py', 'w').write('x')\n", True)]),
        (call("python", code="import os\nos.remove('a')\nos.system('rm b')\nprint(open('c').read())"),
         [("read", "c", None, None, False), ("delete", "a", None, None, False), ("delete", "b", None, None, False)]),
        (call("python", code="from pathlib import Path\nPath('a').write_text('x')"),
         [("write", "a", None, "from pathlib import Path\nPath('a').write_text('x')", True)]),
        (call("execute_ipython_cell", code="import requests\nrequests.get('https://x.org/p')\n!cat d"),
         [("fetch", "https://x.org/p", None, None, False), ("read", "d", None, None, False)]),
        (call("bash", command="node -e \"require('fs').writeFileSync('a.js', 'x')\""),
         [("write", "a.js", None, "require('fs').writeFileSync('a.js', 'x')", True)]),
        (call("submit"), []),
        (call("bash", restart=True), []),
    ],
)  # fmt: skip
def test_what_tool_calls_did(messages, expected):
    assert said(messages) == expected


def test_an_edit_through_a_script_is_no_whole_new_file():
    code = "s = open('a.py').read()\nopen('a.py', 'w').write(s.replace('x', 'y'))"
    assert ("write", "a.py", None, code, False) in said(call("python", code=code))


def test_the_messages_form_and_broken_arguments_are_read_too():
    block = {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "rm a"}}
    assert said([{"role": "assistant", "content": [block]}]) == [("delete", "a", None, None, False)]
    broken = {"function": {"name": "bash", "arguments": '{"command": "rm a'}}
    assert said([{"role": "assistant", "content": "", "tool_calls": [broken]}]) == []


def test_actions_know_their_step_their_result_and_whether_it_worked():
    messages = call("bash", "rm: cannot remove 'a': No such file or directory", command="rm a")
    messages += call("bash", "", command="rm b")
    first, second = (action for action in coding_actions(messages) if action.verb == "delete")
    assert (first.step, first.worked) == (0, False)
    assert (second.step, second.result, second.worked) == (1, "", True)
    assert Action("read", "a").worked
    assert Action("read", "a", result="Error: x" + "y" * 1000).worked


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["command", "path", "edits", "code", "url", "old_str", "input", "file_text", "urls"]), inner, max_size=4),
)  # fmt: skip


@given(JSON, st.sampled_from(["bash", "str_replace_editor", "apply_patch", "delete", ""]))
def test_no_arguments_raise(arguments, name):
    function = {"name": name, "arguments": arguments}
    coding_actions([{"role": "assistant", "tool_calls": [{"function": function}]}])
