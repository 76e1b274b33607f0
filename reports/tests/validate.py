# SPDX-License-Identifier: Apache-2.0
"""Validates JSON documents against a schema: validate.py SCHEMA DOCUMENT... ; exit 0 valid, 1 invalid, 77 without jsonschema."""
import json
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

with open(sys.argv[1], encoding="utf-8") as handle:
    schema = json.load(handle)
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
status = 0
for path in sys.argv[2:]:
    with open(path, encoding="utf-8") as handle:
        document = json.load(handle)
    for error in list(validator.iter_errors(document))[:5]:
        print(f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
        status = 1
sys.exit(status)
