import pickle
from pathlib import Path

import pytest

from whileai.errors import SpecError
from whileai.spec.roles import ResolvedRole, Roles

LOCAL = """
[tool.whileai.models.local]
provider = "openai"
name = "qwen3-32b"
base_url = "http://127.0.0.1:8000/v1"
api_key_env = "WHILEAI_KEY_LOCAL"
params = {max_tokens = 2000, temperature = 0.0}
prices = {input = 0.1, output = 0.4}
context = 32768
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "inside" / "deep").mkdir(parents=True)
    return folder


def roles(project: Path, models=None, **environ: str) -> Roles:
    return Roles(models, folder=project / "inside" / "deep", environ=environ)


def problem(project: Path, models=None, **environ: str) -> str:
    with pytest.raises(SpecError) as caught:
        roles(project, models, **environ).resolve("judge")
    return str(caught.value)


def test_a_table_holds_everything_about_a_model(project: Path):
    (project / "pyproject.toml").write_text(LOCAL)
    role = roles(project).resolve("local")
    assert role == ResolvedRole(
        "openai", "qwen3-32b", "http://127.0.0.1:8000/v1", "WHILEAI_KEY_LOCAL",
        {"max_tokens": 2000, "temperature": 0.0}, {"input": 0.1, "output": 0.4}, 32768, "local", "pyproject.toml",
    )  # fmt: skip
    assert (str(role), role.host) == ("openai:qwen3-32b", "127.0.0.1")
    assert pickle.loads(pickle.dumps(role)) == role


def test_argument_environment_project_user_in_this_order(project: Path, tmp_path: Path):
    user = tmp_path / "user"
    (user / "whileai").mkdir(parents=True)
    (user / "whileai" / "whileai.toml").write_text('[models]\njudge = "openai:user"\nmine = "openai:mine"\n')
    environ = {"XDG_CONFIG_HOME": str(user)}
    assert roles(project, **environ).resolve("judge").name == "user"
    (project / "pyproject.toml").write_text('[tool.whileai.models]\njudge = "openai:project"\n')
    assert roles(project, **environ).resolve("judge").name == "project"
    environ["WHILEAI_MODEL_JUDGE"] = "openai:environment"
    assert roles(project, **environ).resolve("judge").name == "environment"
    found = roles(project, {"judge": "openai:argument"}, **environ)
    assert found.resolve("judge").name == "argument"
    assert found.resolve("mine").name == "mine"
    assert found.names() == ["judge", "mine"]
    origins = [roles(project, **environ).resolve(name).origin for name in ("judge", "mine")]
    assert origins == ["WHILEAI_MODEL_JUDGE", "user configuration"]


def test_a_bare_model_replaces_the_whole_role(project: Path):
    (project / "pyproject.toml").write_text(LOCAL)
    role = roles(project, WHILEAI_MODEL_LOCAL="anthropic:claude:x").resolve("local")
    assert role == ResolvedRole("anthropic", "claude:x", role="local", origin="WHILEAI_MODEL_LOCAL")
    assert role.host == "api.anthropic.com"


def test_a_role_may_be_the_name_of_another(project: Path):
    (project / "pyproject.toml").write_text(LOCAL + '[tool.whileai.models]\njudge = "middle"\nmiddle = "local"\n')
    role = roles(project).resolve("judge")
    assert (role.role, role.name) == ("judge", "qwen3-32b")
    assert role.origin == "pyproject.toml, middle: pyproject.toml, local: pyproject.toml"


def test_a_spec_may_name_a_model_itself(project: Path):
    assert roles(project).resolve("openai:gpt-x") == ResolvedRole("openai", "gpt-x", origin="spec")


def test_whileai_toml_takes_the_same_table_or_its_short_form(project: Path):
    for text in ('[models]\njudge = "openai:x"\n', '[tool.whileai.models]\njudge = "openai:x"\n'):
        (project / "whileai.toml").write_text(text)
        assert roles(project).resolve("judge").name == "x"


def test_the_nearest_configured_folder_is_the_project(project: Path):
    (project / "pyproject.toml").write_text('[tool.whileai.models]\njudge = "openai:outer"\n')
    (project / "inside" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert roles(project).resolve("judge").name == "outer"
    (project / "inside" / "whileai.toml").write_text('[models]\njudge = "openai:inner"\n')
    assert roles(project).resolve("judge").name == "inner"


def test_aliases_in_a_circle_are_refused(project: Path):
    said = problem(project, {"judge": "a"}, WHILEAI_MODEL_A="b", WHILEAI_MODEL_B="judge")
    assert "role 'judge' leads back to itself: judge -> a -> b -> judge" in said


def test_an_undefined_role_says_how_to_define_it(project: Path):
    said = problem(project, {"judge2": "openai:x"})
    assert "role 'judge' is not defined (did you mean 'judge2'?; or WHILEAI_MODEL_JUDGE=provider:name" in said
    assert "--model judge=provider:name" in said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("3", "judge: 3 is neither provider:name nor a table"),
        ('"two words"', "judge: 'two words' is neither provider:name nor a role"),
        ('{provider = "openai"}', "judge.name: is required"),
        ('{provider = "openai", name = "x", temperature = 1}', "judge.temperature: unknown key"),
        ('{provider = "openai", name = "x", context = -1}', "judge.context: -1 must be at least 1"),
        (
            '{provider = "openai", name = "x", prices = {input = -1, output = 0}}',
            "prices.input: -1 must be at least 0",
        ),
        ('{provider = "openai", name = "x", prices = {inputs = 1, output = 0}}', "prices.inputs: unknown key"),
        ('{provider = "Open AI", name = "x"}', "judge.provider: 'Open AI' is not a provider"),
        ('{provider = "openai", name = "x", base_url = "ftp://x"}', "'ftp://x' is not an http or https URL"),
        ('{provider = "openai", name = "x", base_url = "https://u:p@x/v1"}', "the URL of host 'x' carries a user"),
        ('{provider = "openai", name = "x", base_url = "https://x/v1?key=1"}', "the URL of host 'x' carries a user"),
        ('{provider = "openai", name = "x", base_url = "https://x:port"}', "base_url cannot be read"),
    ],
)
def test_a_broken_role_is_refused(project: Path, value: str, said: str):
    (project / "pyproject.toml").write_text(f"[tool.whileai.models]\njudge = {value}\n")
    message = problem(project)
    assert said in message
    assert message.startswith("pyproject.toml: tool.whileai.models.judge")
    assert ":p@" not in message


@pytest.mark.parametrize(
    ("variable", "where", "allowed"),
    [
        ("OPENAI_API_KEY", 'provider = "openai"', True),
        ("OPENAI_API_KEY", 'provider = "openai", base_url = "https://api.openai.com/v1"', True),
        ("OPENAI_API_KEY", 'provider = "openai", base_url = "https://eu.api.openai.com/v1"', True),
        ("ANTHROPIC_API_KEY", 'provider = "openai", base_url = "https://api.anthropic.com/v1"', True),
        ("OPENAI_API_KEY", 'provider = "openai", base_url = "http://api.openai.com/v1"', False),
        ("OPENAI_API_KEY", 'provider = "openai", base_url = "https://api.openai.com.evil.example/v1"', False),
        ("OPENAI_API_KEY", 'provider = "openai", base_url = "https://evil.example/api.openai.com"', False),
        ("OPENAI_API_KEY", 'provider = "openai", base_url = "https://notapi.openai.com/v1"', False),
        ("OPENAI_API_KEY", 'provider = "anthropic"', False),
        ("OPENAI_API_KEY", 'provider = "own"', False),
        ("AWS_SECRET_ACCESS_KEY", 'provider = "openai"', False),
        ("WHILEAI_KEY_LOCAL", 'provider = "openai", base_url = "http://10.0.0.1/v1"', True),
        ("XWHILEAI_KEY_LOCAL", 'provider = "openai", base_url = "http://10.0.0.1/v1"', False),
    ],
)
def test_a_vendors_key_goes_to_its_own_host_only(project: Path, variable: str, where: str, allowed: bool):
    table = f'[tool.whileai.models]\njudge = {{{where}, name = "x", api_key_env = "{variable}"}}\n'
    (project / "pyproject.toml").write_text(table)
    if allowed:
        assert roles(project).resolve("judge").api_key_env == variable
    else:
        assert f"api_key_env: '{variable}' is not sent to" in problem(project)


def test_a_role_in_both_files_of_a_project_is_a_conflict(project: Path):
    (project / "pyproject.toml").write_text('[tool.whileai.models]\njudge = "openai:x"\n')
    (project / "whileai.toml").write_text('[models]\njudge = "openai:y"\n')
    assert "'judge' is defined in pyproject.toml and in whileai.toml" in problem(project)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("pyproject.toml", "[tool.whileai]\nmodel = {}\n", "tool.whileai.model: unknown key (did you mean 'models'?)"),
        ("pyproject.toml", "[tool]\nwhileai = 3\n", "tool.whileai: 3 is not a table"),
        ("pyproject.toml", "[tool.whileai]\nmodels = 3\n", "tool.whileai.models: 3 is not a table of roles"),
        ("whileai.toml", "[models]\nJudge = 'openai:x'\n", "models.Judge: 'Judge' is not the name of a role"),
        ("whileai.toml", "x = [", "whileai.toml: is not TOML"),
    ],
)
def test_a_broken_file_is_refused(project: Path, file: str, text: str, said: str):
    (project / file).write_text(text)
    assert said in problem(project)


def test_all_mistakes_of_a_file_come_together(project: Path):
    (project / "whileai.toml").write_text("[models]\nA = 'x'\nb = 3\nc = {provider = 'openai'}\n")
    assert len(problem(project).splitlines()) == 3


def test_the_environment_and_arguments_are_read_as_strictly(project: Path):
    assert "environment: judge: 'a b' is neither" in problem(project, WHILEAI_MODEL_JUDGE="a b")
    assert "models=: judge: 3 is neither" in problem(project, {"judge": 3})
    assert roles(project, WHILEAI_MODEL_JUDGE="recorded:").resolve("judge").provider == "recorded"
