import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.shell import normal_path, simple_commands


def words(script: str) -> list[tuple[str, ...]]:
    return [command.words for command in simple_commands(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("ls -la; cat a.txt && rm b || true", [("ls", "-la"), ("cat", "a.txt"), ("rm", "b"), ("true",)]),
        ("cat 'a b.txt' \"c d\"", [("cat", "a b.txt", "c d")]),
        ("FOO=1 sudo timeout 60s git log # rm -rf /", [("git", "log")]),
        ("/usr/bin/git status | head -5", [("git", "status"), ("head", "-5")]),
        ("if [ -f x ]; then rm x; fi", [("[", "-f", "x", "]"), ("rm", "x")]),
        ("for f in a b; do cat $f; done", [("cat", "$f")]),
        ("echo $(cat secret) `cat other`", [("echo", "$"), ("cat", "secret"), ("cat", "other")]),
        ("cat a\\\n  b", [("cat", "a", "b")]),
        ("bash -lc 'cd x && rm y'", [("cd", "x"), ("rm", "y")]),
        ("sh -c \"bash -c 'rm z'\"", [("rm", "z")]),
        ("sh <<'EOF'\nrm z\nEOF", [("rm", "z")]),
        ("find . -name '*.py' | xargs rm", [("find", ".", "-name", "*.py"), ("rm",)]),
        ("cat <<< text", [("cat",)]),
        ("a <<EOF\nnever ends", [("a",), ("never", "ends")]),
        ("", []),
        ("\x00document7 x", [("document7", "x")]),
    ],
)
def test_scripts_as_simple_commands(script, expected):
    assert words(script) == expected


def test_a_quote_that_never_closes_costs_its_own_line_only():
    assert words("echo it's\nrm tests/a.py\ncat 'b c'") == [("echo", "it", "s"), ("rm", "tests/a.py"), ("cat", "b c")]


@pytest.mark.parametrize(
    ("script", "outputs"),
    [
        ("echo a > x", [("x", False)]),
        ("echo a >> x", [("x", True)]),
        ("echo a &> x", [("x", False)]),
        ("echo a >& x", [("x", False)]),
        ("make 2>&1 > log 2>err", [("log", False), ("err", False)]),
        ("cat < in", []),
        ("echo 'a > b'", []),
    ],
)
def test_outputs(script, outputs):
    assert [tuple(output) for command in simple_commands(script) for output in command.outputs] == outputs


def test_here_documents_belong_to_their_commands():
    first, second = simple_commands("cat > a <<'A' && tee b <<B\nit's $x > y\nA\ntwo\nB\n")
    assert (first.words, first.stdin, first.outputs[0].path) == (("cat",), "it's $x > y\n", "a")
    assert (second.words, second.stdin) == (("tee", "b"), "two\n")


def test_a_here_document_inside_a_quoted_script():
    (command,) = simple_commands("bash -lc \"cat > a.txt <<'EOF'\nbody's\nEOF\"")
    assert (command.words, command.stdin) == (("cat",), "body's\n")


def test_cd_leads_the_paths_of_what_follows():
    *_, last = simple_commands("cd /testbed/src && cd ../tests; rm a.py")
    assert last.path("a.py") == "/testbed/tests/a.py"
    assert last.path("/tmp/x") == "/tmp/x"
    assert normal_path("./a//b/../c") == "a/c"
    assert normal_path(" ") == ""


@given(st.text(alphabet="ab /.'\"\\\n;&|<>()`$#-EOF\x00{}", max_size=80))
def test_no_script_raises(script):
    for command in simple_commands(script):
        assert all(isinstance(word, str) for word in command.words)
