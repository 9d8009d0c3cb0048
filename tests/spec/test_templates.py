import pytest
from jinja2 import TemplateError

from whileai.spec.sources import Sources
from whileai.spec.templates import PromptTemplate
from whileai.spec.validation import Mistake


@pytest.fixture
def template(tmp_path):
    """Makes the template a.j2 out of files."""
    (tmp_path / "x.yaml").write_text("spec: 1\n")

    def make(**files: str) -> PromptTemplate:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.j2"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
        sources = Sources()
        return PromptTemplate("./a.j2", sources.file(tmp_path / "x.yaml"), sources)

    return make


def test_values_are_shown_and_never_read_as_templates(template):
    made = template(a="{{ task }}\n{% for r in rollouts %}\n{{ loop.index }}: {{ r.text|tojson }}\n{% endfor %}\nend\n")
    rollouts = [{"text": "{{ 1 + 1 }} <b> 'é'"}, {"text": "{% raw %}"}]
    assert made.render({"task": "{{ secret }}", "rollouts": rollouts}) == (
        '{{ secret }}\n1: "{{ 1 + 1 }} <b> \'é\'"\n2: "{% raw %}"\nend'
    )


def test_needs_are_known_with_their_places_before_anything_is_rendered(template):
    made = template(
        a="{{ task }}{% for r in rollouts %}{% set n = 1 %}{{ r }}{{ n }}{% endfor %}\n{% include './sub/b.j2' %}",
        sub__b="\n{{ r }}{{ criteria }}{% include './c.j2' %}",
        sub__c="{{ hidden }}",
    )
    assert {name: line for name, (_, line) in made.needs.items()} == {
        "task": 1, "rollouts": 1, "criteria": 2, "hidden": 1,
    }  # fmt: skip
    assert made.needs["criteria"][0].endswith("sub/b.j2")
    made.check_names(["task", "rollouts", "criteria", "hidden"])
    with pytest.raises(Mistake) as caught:
        made.check_names(["task", "rollouts", "criterion"])
    assert [(problem.line, problem.remedy) for problem in caught.value.problems] == [
        (2, "did you mean 'criterion'?"),
        (1, "known: criterion, rollouts, task"),
    ]


def test_includes_imports_macros_blocks_and_loops_work(template):
    made = template(
        a="{% extends './base.j2' %}{% import './lib.j2' as lib %}{% from './lib.j2' import bold %}"
        "{% block body %}{{ super() }}{{ lib.bold('x') }}{{ bold(task) }}{{ self.body is defined }}"
        "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"
        "{{ ['b', 'a']|sort|join(', ') }}{{ 'x\ny'|indent(2) }}{% endblock %}",
        base="<{% block body %}base {% endblock %}>",
        lib="{% macro bold(text) %}*{{ text }}*{% endmacro %}",
    )
    assert made.render({"task": "t"}).startswith("<base *x**t*")
    assert "3a, bx\n  y" in made.render({"task": "t"})


@pytest.mark.parametrize(
    "include",
    ["'./../x.yaml'", "'/etc/hostname'", "'../x'", "'x.yaml'", "task", "'./' ~ task", "['./b.j2', task]", "'./a.j2'",
     "'groupwise/none'", "'/etc/hostname' ignore missing"],
)  # fmt: skip
def test_no_include_leads_elsewhere(template, include):
    with pytest.raises(Mistake):
        template(a="{% include " + include + " %}", b="")


def test_a_shipped_template_is_included_by_its_bare_name(template):
    made = template(a="{% include 'groupwise/data' %}")
    assert "rollouts" in made.needs


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a\n{{ task", 2, "is no template"),
        ("a\n{% for x in y %}", 2, "is no template"),
        ("a\n\n{{ task|uper }}", 3, "no filter 'uper'"),
        ("{{ task is emtpy }}", 1, "no test 'emtpy'"),
        ("{{ 'a'|center(1000000000) }}", 1, "no filter 'center'"),
        ("{{ task|attr('x') }}", 1, "no filter 'attr'"),
        ("{{ " + "(" * 300 + "1" + ")" * 300 + " }}", None, "is nested too deeply"),
    ],
)
def test_a_mistake_in_a_template_has_its_line(template, text, line, message):
    with pytest.raises(Mistake) as caught:
        template(a=text)
    (problem,) = caught.value.problems
    assert problem.file.endswith("a.j2")
    assert message in problem.message
    assert problem.line == line


@pytest.mark.parametrize(
    "text",
    ["{{ task.__class__ }}", "{{ ().__class__.__bases__ }}", "{{ task.format }}", "{{ rollouts.append(1) }}",
     "{{ 'a' * 10 ** 9 }}", "{{ 10 ** (10 ** 7) }}", "{% for i in range(10 ** 6) %}{% endfor %}",
     "{{ rollouts[0].labl }}",
     "{{ range.__self__ }}", "{{ namespace.__init__ }}", "{{ task|indent(10 ** 6) }}", "{{ 1|round(10 ** 6) }}",
     "{% macro m() %}{% endmacro %}{{ m.__globals__ }}", "{{ loop }}", "{{ rollouts[0]|tojson(10 ** 6) }}",
     "{% set rollouts[0].label = 1 %}"],
)  # fmt: skip
def test_what_a_template_cannot_reach_or_make(template, text):
    rollouts = [{"label": "A"}]
    with pytest.raises((TemplateError, Mistake)):
        template(a=text).render({"task": "x" * 100, "rollouts": rollouts})
    assert rollouts == [{"label": "A"}]


def test_nothing_is_computed_while_a_template_is_compiled(template):
    assert template(a="{{ 10 ** (10 ** 7) }}{{ 'a' * 10 ** 9 }}{{ 'x'|indent(10 ** 9) }}").needs == {}


def test_the_digest_covers_includes_and_no_names_or_newlines(template):
    plain = template(a="x\n{% include './b.j2' %}\n", b="part\n").digest
    assert template(a="x\r\n{% include './b.j2' %}\r\n", b="part\r\n").digest == plain
    assert template(a="x\n{% include './b.j2' %}\n", b="other\n").digest != plain
    assert template(a="y\n{% include './b.j2' %}\n", b="part\n").digest != plain


@pytest.mark.parametrize(
    "text",
    [
        "{% for a in rollouts %}" * 30 + "{% endfor %}" * 30,
        "{% if task %}" * 500 + "{% endif %}" * 500,
        "{% block a %}{% endblock %}{% block a %}{% endblock %}",
        "{% for loop in rollouts %}{% endfor %}",
    ],
)
def test_what_does_not_compile_is_refused_when_it_is_read(template, text):
    with pytest.raises(Mistake) as caught:
        template(a="{% include './b.j2' %}", b=text)
    assert caught.value.problems[0].file.endswith("b.j2")
