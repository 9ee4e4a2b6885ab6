import json
from pathlib import Path

import jsonschema
import pytest

from vnetperf.model.result import RunResults
from vnetperf.report import results_json
from vnetperf.report.schema import fields_text, main, results_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "results.schema.json"
FIELDS = PUBLISHED.with_name("fields.md")


def test_the_published_schema_is_not_stale():
    assert json.loads(PUBLISHED.read_text("utf-8")) == results_schema(), (
        "cure: python -m vnetperf.report.schema docs/results.schema.json"
    )


def test_the_page_of_fields_is_not_stale():
    assert FIELDS.read_text("utf-8") == fields_text(), (
        "cure: python -m vnetperf.report.schema docs/results.schema.json"
    )


def test_it_is_a_valid_schema():
    jsonschema.Draft202012Validator.check_schema(results_schema())


@pytest.mark.slow
def test_results_json_validates_and_reads_back(results):
    said = results_json(results)
    jsonschema.validate(json.loads(said), results_schema())
    assert RunResults.model_validate_json(said) == results


@pytest.mark.slow
def test_an_unknown_key_does_not_validate(results):
    changed = json.loads(results_json(results)) | {"throughput": 1}
    with pytest.raises(jsonschema.ValidationError, match="throughput"):
        jsonschema.validate(changed, results_schema())


def test_every_field_is_described():
    schema = results_schema()
    models = [schema, *(d for d in schema["$defs"].values() if "properties" in d)]
    missing = [
        f"{model.get('title')}.{name}"
        for model in models
        for name, field in model["properties"].items()
        if not field.get("description")
    ]
    assert missing == []


def test_the_command_writes_and_checks(tmp_path, capsys):
    path = tmp_path / "schema.json"
    assert main([str(path), "--check"]) == 1
    assert "python -m vnetperf.report.schema" in capsys.readouterr().err
    assert main([str(path)]) == 0
    assert main([str(path), "--check"]) == 0
