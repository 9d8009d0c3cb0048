import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from whileai.checks.certificate import (
    Certificate,
    digest,
    find_certificate,
    gate_fingerprint,
    save_certificate,
)
from whileai.checks.report import CheckReport, Figure
from whileai.checks.votes import GateKnobs
from whileai.errors import ConfigError
from whileai.spec.models import CheckRules

PARTS = {"spec": digest("name: g"), "prompt groupwise/ranking": digest("{{ rollouts }}"), "model": "openai:small"}
REPORT = CheckReport(
    "yes", "g", "advantage", (Figure("retest", "yes", "tau", "0.3", 0.61234567, 0.4, 0.8),), groups=30, judged=25
)


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    return folder


def fingerprint(**knobs):
    return gate_fingerprint(PARTS, rules=CheckRules(), knobs=GateKnobs(**knobs))


def certificate(verdict="yes", **knobs):
    return Certificate.of(replace(REPORT, verdict=verdict), fingerprint(**knobs))


def status(**options):
    return find_certificate("g", fingerprint(), **options).status


def test_it_is_small_deterministic_and_reads_back(project):
    path = save_certificate(certificate())
    assert path.parent == project / ".whileai" / "certs"
    first = path.read_bytes()
    assert save_certificate(certificate()) == path
    assert path.read_bytes() == first
    assert len(first) < 2000
    assert Certificate.from_json(first.decode(), "x") == certificate()
    assert pickle.loads(pickle.dumps(certificate())) == certificate()
    assert json.loads(first)["figures"]["retest"] == {"answer": "yes", "value": 0.612346, "low": 0.4, "high": 0.8}


def test_it_is_found_upward_from_the_working_directory(project, monkeypatch):
    assert status() == "missing"
    save_certificate(certificate())
    inner = project / "src" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert status() == "valid"
    assert status(start=project.parent) == "missing"


def test_argument_and_variable(project, tmp_path, monkeypatch):
    elsewhere = tmp_path / "certs"
    monkeypatch.setenv("WHILEAI_CERTS", str(elsewhere))
    path = save_certificate(certificate())
    assert path.parent == elsewhere
    assert status() == "valid"
    monkeypatch.delenv("WHILEAI_CERTS")
    assert status() == "missing"
    assert status(given=elsewhere) == "valid"
    assert status(given=path) == "valid"
    with pytest.raises(ConfigError, match="no such file"):
        status(given=tmp_path / "nowhere")
    own = save_certificate(certificate(), given=tmp_path / "own.json")
    assert own == tmp_path / "own.json"
    assert status(given=own) == "valid"


def test_a_later_no_voids_it_wherever_it_stands(project, tmp_path):
    kept = save_certificate(certificate(), given=tmp_path / "kept")
    save_certificate(certificate())
    refusal = save_certificate(certificate("no"))
    assert status() == "refused"
    found = find_certificate("g", fingerprint(), given=kept)
    assert (found.status, found.path) == ("refused", refusal)
    assert "said no" in str(found)
    save_certificate(certificate())
    assert status(given=kept) == "valid"


def test_a_later_yes_replaces_refusals_on_the_way(project, tmp_path, monkeypatch):
    save_certificate(certificate("no"))
    monkeypatch.setenv("WHILEAI_CERTS", str(tmp_path / "shared"))
    save_certificate(certificate())
    assert status() == "valid"


def test_not_enough_data_records_nothing():
    with pytest.raises(ValueError, match="neither"):
        certificate("not enough data")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spec": digest("name: other")}, "spec changed"),
        ({"model": "openai:large"}, "model changed from openai:small to openai:large"),
        ({"schema ./own.json": "ab"}, "schema ./own.json is new"),
    ],
)
def test_stale_says_what_changed(change, words):
    save_certificate(certificate())
    found = find_certificate("g", {**fingerprint(), **change})
    assert found.status == "stale"
    assert found.changed == (words,)
    assert words in str(found)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"min_factor": 0.25}, "min_factor changed from 0.5 to 0.25"),
        ({"min_factor": 0.50000001}, "min_factor changed from 0.5 to 0.50000001"),
        ({"hack_zero": False}, "hack_zero changed from True to False"),
        ({"pass_threshold": 1.0}, "pass_threshold changed from 0.5 to 1"),
    ],
)
def test_other_knobs_are_stale(knobs, words):
    save_certificate(certificate())
    assert find_certificate("g", fingerprint(**knobs)).changed == (words,)


def test_other_rules_are_stale_and_reasons_are_not():
    loose = CheckRules(min_groups=5, because="a small pilot with few tasks")
    same = CheckRules(min_groups=5, because="another reason altogether")
    prints = [gate_fingerprint(PARTS, rules=rules, knobs=GateKnobs()) for rules in (loose, same, CheckRules())]
    assert prints[0] == prints[1]
    save_certificate(Certificate.of(REPORT, prints[0]))
    assert find_certificate("g", prints[2]).changed == ("check changed from min_groups=5 to defaults",)


def test_rubrics_count_in_reward_mode():
    def print_of(rubrics):
        return gate_fingerprint(PARTS, rules=CheckRules(), knobs=GateKnobs(mode="reward", rubrics=rubrics))

    assert print_of({"a": ["x"], "b": {"p": 1, "q": 2}}) == print_of({"b": {"q": 2, "p": 1}, "a": ["x"]})
    assert print_of({"a": ["x"]}) != print_of({"a": ["y"]})
    assert print_of(print_of)["rubrics"].endswith("print_of")
    with pytest.raises(ConfigError, match="rubrics"):
        print_of({"a": object()})


def test_the_nearest_certificate_is_named_when_several_are_stale():
    save_certificate(Certificate.of(REPORT, {**fingerprint(), "spec": "00", "model": "x"}))
    save_certificate(Certificate.of(REPORT, {**fingerprint(), "model": "near"}))
    assert find_certificate("g", fingerprint()).changed == ("model changed from near to openai:small",)


def test_each_link_has_its_own():
    save_certificate(certificate())
    backup = {**fingerprint(), "model": "anthropic:small"}
    assert find_certificate("g[judge_backup]", backup).status == "missing"
    save_certificate(Certificate.of(replace(REPORT, grader="g[judge_backup]"), backup))
    assert find_certificate("g[judge_backup]", backup).status == "valid"
    assert status() == "valid"


def test_a_copy_elsewhere_with_other_newlines_is_valid_in_another_process(project, tmp_path):
    path = save_certificate(certificate())
    copy = tmp_path / "copy" / ".whileai" / "certs" / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    code = (
        "import pickle, sys; from whileai.checks.certificate import find_certificate;"
        "print(find_certificate('g', pickle.loads(bytes.fromhex(sys.argv[1]))).status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, pickle.dumps(fingerprint()).hex()],
        cwd=copy.parents[2],
        env={**os.environ, "HOME": str(tmp_path), "USER": "someone", "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "valid"
    assert digest("a\r\nb") == digest("a\nb") == digest(b"a\r\nb")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"certificate": 1}', "\xff", "3"],
)
def test_a_broken_file_is_an_error_that_names_it(project, text):
    path = save_certificate(certificate())
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=path.name) as said:
        status()
    assert str(said.value).endswith("; delete it and check the grader again")


@pytest.mark.parametrize(
    "change", [{"verdict": "maybe"}, {"certificate": 2}, {"fingerprint": []}, {"grader": None}, {"more": 1}]
)
def test_a_file_with_other_content_is_no_certificate(project, change):
    path = save_certificate(certificate())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match=path.name):
        status()


def test_names_that_no_file_may_have(project):
    odd = replace(certificate(), grader="../../etc/ü [x]*")
    path = save_certificate(odd)
    assert path.parent == project / Path(".whileai/certs")
    assert find_certificate("../../etc/ü [x]*", fingerprint()).status == "valid"
    assert find_certificate(".._.._etc_ü _x_", fingerprint()).status == "missing"
