"""`whileai render`: what is printed is what would be sent, and nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopback.judges import judge, quality
from loopback.server import LoopbackServer
from whileai.loader import load_grader

ROWS = [
    {"task_id": task, "reward": reward, "completion": text}
    for task in ("t-1", "t-2")
    for text, reward in ((f"{task}: q=0.2", 1), (f"{task}: q=0.9", 1), ("no", 0))
]


@pytest.fixture
def place(folder: Path, roles: None, write: Any, put: Any, monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    """A project with a judge and rows in it."""
    monkeypatch.chdir(project)
    write(orders=2, hacks={"kinds": ["leak"]})
    (project / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return project


def sent(server: LoopbackServer) -> list[tuple[str, str]]:
    """System and user message of each request that arrived."""
    return [(request.body["messages"][0]["content"], request.turns[0][1]) for request in server.requests]


def test_what_is_printed_is_what_is_sent(run, place, server):
    done = run("render", "craft.yaml", "--rows", "rows.jsonl", "--group", "t-2", "--json")
    assert done.code == 0 and not server.requests
    (asked,) = done.json["judges"]
    assert (done.json["group"], done.json["requests"], done.json["rows"]) == ("t-2", 2, [3, 4, 5])
    assert asked["models"] == [{"model": "judge=openai:judge-1", "host": "127.0.0.1"}]
    server.default = judge(quality)
    load_grader("craft.yaml")(
        [{**row, "index": n, "prompt": "", "passed": bool(row["reward"])} for n, row in enumerate(ROWS[3:])]
    )
    assert sorted((request["system"], request["user"]) for request in asked["requests"]) == sorted(sent(server))
    schemas = [request.body["response_format"]["json_schema"]["schema"] for request in server.requests]
    assert all(
        sorted(schema["properties"]) == sorted(asked["requests"][0]["schema"]["properties"]) for schema in schemas
    )


def test_the_whole_prompt_stands_in_what_a_pipe_gets(run, place, server):
    machine = run("render", "craft.yaml", "--rows", "rows.jsonl", "--json").json["judges"][0]
    done = run("render", "craft.yaml", "--rows", "rows.jsonl")
    assert done.code == 0 and not server.requests
    for request in machine["requests"]:
        assert request["user"] in done.out and request["system"] in done.out
    assert done.out.count("--- system message ---") == 1
    assert "--- user message 1 of 2: A is " in done.out and "--- schema of the reply ---" in done.out
    assert "craft would ask judge=openai:judge-1 at 127.0.0.1" in done.out
    tokens = sum(request["tokens"] for request in machine["requests"])
    assert f"2 requests, about {tokens:,} tokens in all, no cap on a reply; price unknown" in done.words
    assert not (place / ".whileai" / "journal.jsonl").exists()


def test_a_known_price_and_a_cap(run, place):
    toml = (place / "whileai.toml").read_text()
    priced = 'name = "judge-1"\nparams = {max_tokens = 1000}\nprices = {input = 10.0, output = 40.0}'
    (place / "whileai.toml").write_text(toml.replace('name = "judge-1"', priced))
    done = run("render", "craft.yaml", "--rows", "rows.jsonl", "--json")
    tokens = sum(request["tokens"] for request in done.json["judges"][0]["requests"])
    assert done.json["usd"] == pytest.approx(tokens * 1e-5 + 2 * 1000 * 4e-5, rel=0.02)
    text = run("render", "craft.yaml", "--rows", "rows.jsonl").words
    assert "at most 1,000 for a reply; about $0.1" in text


def test_another_model_for_this_time(run, place):
    done = run("render", "craft.yaml", "--rows", "rows.jsonl", "--model", "judge=anthropic:big")
    assert "craft would ask judge=anthropic:big at api.anthropic.com" in done.out
    assert "at most 16,000 for a reply" in done.out


def test_a_panel_shows_what_every_judge_of_it_would_be_sent(run, place):
    (place / "panel.yaml").write_text(
        "spec: 1\nname: panel\nkind: panel\n"
        "members: [./craft.yaml, {grader: ./craft.yaml, model: backup}, rank_group]\n"
    )
    done = run("render", "panel.yaml", "--rows", "rows.jsonl", "--json")
    assert [(asked["judge"], len(asked["requests"])) for asked in done.json["judges"]] == [
        ("craft", 2),
        ("craft[backup]", 2),
    ]
    assert done.json["requests"] == 4


def test_reward_mode_shows_a_request_for_every_pass(run, place, write):
    write("scorer.yaml", mode="reward", verdict="scores", prompt={"system": "reward/system", "user": "reward/scores"})
    done = run("render", "scorer.yaml", "--rows", "rows.jsonl", "--json")
    assert [list(request["shown"].values()) for request in done.json["judges"][0]["requests"]] == [[[0]], [[1]]]
    write("writer.yaml", mode="reward", verdict="rubric", prompt={"system": "reward/system", "user": "reward/rubric"})
    assert run("render", "writer.yaml", "--rows", "rows.jsonl", "--json").json["requests"] == 1


def test_nothing_is_sent_about_passes_that_are_one(run, place, write):
    write(hacks=None)
    rows = [{**row, "completion": "the same" if row["reward"] else "no"} for row in ROWS]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("render", "craft.yaml", "--rows", "rows.jsonl")
    assert "Nothing: all passes are shown as one and the same text, so they tie." in done.words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rank_group", "--rows", "rows.jsonl"], "rank_group is kind: rules, which asks no model"),
        (["./g.py:grade", "--rows", "rows.jsonl"], "is a plain function, which asks no model"),
        (["craft.yaml", "--rows", "rows.jsonl", "--group", "t-9"], "none of the 2 groups is called so"),
        (["craft.yaml", "--rows", "none.jsonl"], "none.jsonl"),
        (["craft.yaml", "--rows", "failed.jsonl"], "no rollout of the group f passed"),
        (["craft.yaml", "--rows", "rows.jsonl", "--model", "judge"], "--model judge: write ROLE=MODEL"),
        (["craft.yaml", "--rows", "rows.jsonl", "--model", "judge=nobody"], "role 'nobody' is not defined"),
        (["columns.yaml", "--rows", "rows.jsonl"], "has no column 'ticket'"),
    ],
)
def test_mistakes_are_said_and_end_with_2(run, place, write, arguments, said, server):
    (place / "g.py").write_text("def grade(group):\n    return {}\n")
    (place / "failed.jsonl").write_text('{"task_id": "f", "reward": 0, "completion": "x"}\n' * 2)
    write("columns.yaml", columns=["ticket"])
    done = run("render", *arguments)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert not server.requests


# The other commands: --model, --record, and whom they say they will ask


def test_commands_say_whom_they_ask_how_often_and_what_it_costs_before_they_do(run, place, server):
    server.default = judge(quality)
    for command, requests in (("grade", 4), ("explain", 2)):
        done = run(command, "craft.yaml", "--rows", "rows.jsonl")
        assert done.code == 0
        said = f"craft asks judge=openai:judge-1 at 127.0.0.1: about {requests} requests, price unknown"
        assert said in " ".join(done.err.split()), command
    done = run("check", "craft.yaml", "--rows", "rows.jsonl")
    assert "4 calls for 2 of 2 groups" in done.err and "price unknown" in done.err
    assert "craft asks judge=openai:judge-1 at 127.0.0.1" in done.err
    (place / "craft.golden.yaml").write_text(
        json.dumps(
            {
                "golden": 1,
                "cases": [
                    {"name": "a", "group": [{"completion": "q=0.2"}, {"completion": "q=0.9"}], "ranking": [1, 0]}
                ],
            }
        )
    )
    done = run("test", "craft.yaml")
    assert done.code == 0 and "about 2 requests" in done.err


def test_what_is_said_comes_before_the_first_request(run, place, server, capsys):
    seen: list[str] = []

    def watching(request: Any) -> Any:
        seen.append(capsys.readouterr().err)
        return judge(quality)(request)

    server.default = watching
    run("grade", "craft.yaml", "--rows", "rows.jsonl")
    assert "craft asks judge=openai:judge-1 at 127.0.0.1" in seen[0]


def test_a_grader_without_models_says_nothing_of_them(run, place):
    assert "asks" not in run("grade", "rank_group", "--rows", "rows.jsonl").err


@pytest.mark.parametrize("command", ["check", "grade", "explain"])
def test_a_model_for_this_time_is_the_one_that_is_asked(run, place, server, command):
    server.default = judge(quality)
    run(command, "craft.yaml", "--rows", "rows.jsonl", "--model", "judge=messages")
    assert {request.path for request in server.requests} == {"/v1/messages"}
    done = run(command, "./g.py:grade", "--rows", "rows.jsonl", "--model", "judge=messages")
    assert done.code == 2 and "is a plain function, which asks no model" in done.err
    twice = run(command, "craft.yaml", "--rows", "rows.jsonl", "--model", "judge=a:b", "--model", "judge=c:d")
    assert twice.code == 2 and "judge is given twice" in twice.err


def test_what_is_recorded_is_replayed(run, place, server):
    server.default = judge(quality)
    first = run("grade", "craft.yaml", "--rows", "rows.jsonl", "--record")
    assert len((place / "craft.recorded.jsonl").read_text().splitlines()) == 4
    server.forget()
    again = run("grade", "craft.yaml", "--rows", "rows.jsonl", "--model", "judge=recorded:")
    assert again.out == first.out and not server.requests
    assert "judge=recorded:craft.recorded.jsonl, which sends nothing: about 4 requests, at no cost" in again.err


def test_a_missing_column_stops_a_command_before_it_asks(run, place, server, write):
    write(columns=["ticket"])
    for command in ("grade", "explain"):
        done = run(command, "craft.yaml", "--rows", "rows.jsonl")
        assert done.code == 2 and "column 'ticket'" in done.err
    assert not server.requests


def test_models_of_a_spec(run, place):
    (place / "panel.yaml").write_text(
        "spec: 1\nname: panel\nkind: panel\nmembers: [./craft.yaml, {grader: ./craft.yaml, model: messages}]\n"
    )
    found = run("models", "panel.yaml", "--json").json
    assert [(model["role"], model["model"]) for model in found] == [
        ("judge", "openai:judge-1"),
        ("messages", "anthropic:judge-3"),
    ]
    found = run("models", "craft.yaml", "--model", "judge=backup", "--json").json
    assert [model["model"] for model in found] == ["openai:judge-2"]
    done = run("models", "rank_group")
    assert done.code == 2 and "rank_group asks no model: it is kind: rules" in done.err


def test_on_a_terminal(place, terminal):
    code, _, lines = terminal("render", "craft.yaml", "--rows", "rows.jsonl")
    assert code == 0
    assert sum(line.startswith("---") for line in lines) == 4
    assert all(len(line) <= 80 for line in lines if "asks" in line or "would ask" in line or "tokens in all" in line)
