import jsonschema
import pytest

from whileai.cli.schema import SCHEMAS
from whileai.spec.library import library_folder


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_printed_as_one(run, name):
    done = run("schema", name)
    assert done.code == 0
    jsonschema.Draft202012Validator.check_schema(done.json)
    assert done.json["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert done.json["title"] == name


def test_without_a_name_it_says_which_there_are(run):
    done = run("schema")
    assert [line.split()[0] for line in done.lines] == list(SCHEMAS)


def test_every_shipped_schema_has_a_name():
    shipped = {path.name.partition(".")[0] for path in library_folder("schemas").glob("*.json")}
    assert shipped == set(SCHEMAS)


def test_an_unknown_name_is_refused_with_the_nearest(run):
    done = run("schema", "rankin")
    assert (done.code, done.err) == (2, "error: there is no schema 'rankin' (did you mean 'ranking'?)\n")
