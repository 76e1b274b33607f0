#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fault planted in the sound answer of another subject: shows that whoever judges would have noticed.

planted.py [--fault NAME] [--log FILE] SUBJECT... REQUEST   a subject: runs SUBJECT, spoils one tensor of what it answered
planted.py --passed REPORT.json                             names of the cases that passed, one a line
planted.py --check LOG REPORT.json                          exit status 1 unless each planted fault is named with its tensor

Faults: transposed (rows and columns of a matrix exchanged, its shape kept), rolled (rows moved by one), doubled (each value times two),
bit (one bit of the last element). PLANTED_FAULT and PLANTED_LOG stand for the options. The tensor is drawn by the name of the case.
"""
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from subject import UNSUPPORTED, read_request  # noqa: E402

# Dtype: bytes of an element, and the lowest bit of its exponent in the last of them or the one before.
WIDTH = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F64": 8}
EXPONENT = {"F32": 23, "F16": 10, "BF16": 7, "F8_E4M3": 3, "F8_E5M2": 2, "F64": 52}
EXPONENT_BITS = {"F32": 8, "F16": 5, "BF16": 8, "F8_E4M3": 4, "F8_E5M2": 5, "F64": 11}


def matrices(tensor):
    """(rows, columns) of the last two axes, and how many such matrices; None for what has no rows."""
    shape = tensor["shape"]
    if len(shape) < 2 or shape[-1] < 2 or shape[-2] < 2:
        return None
    count = 1
    for extent in shape[:-2]:
        count *= extent
    return shape[-2], shape[-1], count


def transposed(tensor, data):
    shape = matrices(tensor)
    if shape is None:
        return data
    rows, columns, count = shape
    width, out = WIDTH[tensor["dtype"]], bytearray()
    for matrix in range(count):
        base = matrix * rows * columns
        for column in range(columns):
            for row in range(rows):
                at = (base + row * columns + column) * width
                out += data[at : at + width]
    return bytes(out)


def rolled(tensor, data):
    shape = matrices(tensor)
    if shape is None:
        return data
    row = shape[1] * WIDTH[tensor["dtype"]]
    matrix = shape[0] * row
    return b"".join(data[at + row : at + matrix] + data[at : at + row] for at in range(0, len(data), matrix))


def doubled(tensor, data):
    width, low, bits = WIDTH[tensor["dtype"]], EXPONENT[tensor["dtype"]], EXPONENT_BITS[tensor["dtype"]]
    out = bytearray()
    for at in range(0, len(data), width):
        code = int.from_bytes(data[at : at + width], "little")
        exponent = code >> low & (1 << bits) - 1
        if 0 < exponent < (1 << bits) - 2:  # zeros, subnormal values and the largest stay
            code += 1 << low
        out += code.to_bytes(width, "little")
    return bytes(out)


def bit(tensor, data):
    width = WIDTH[tensor["dtype"]]
    return data[:-width] + bytes([data[-width] ^ 1]) + data[len(data) - width + 1 :] if data else data


FAULTS = {"transposed": transposed, "rolled": rolled, "doubled": doubled, "bit": bit}


def headers(output):
    """(file, offset of its data, header) of each file of an answer."""
    for path in sorted(output.glob("*.safetensors")) if output.is_dir() else [output]:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        yield path, 8 + length, header


def plant(request, fault):
    """Spoils one tensor of the answer in place; its name, or None where the answer has none that this fault changes."""
    candidates = [(name, path, base, entry) for path, base, header in headers(request.output) for name, entry in header.items()]
    candidates = sorted((row for row in candidates if row[3]["dtype"] in WIDTH), key=lambda row: row[0])
    first = zlib.crc32(request.case.encode()) % max(1, len(candidates))
    for name, path, base, entry in candidates[first:] + candidates[:first]:
        begin, end = (base + offset for offset in entry["data_offsets"])
        with open(path, "r+b") as file:
            file.seek(begin)
            data = file.read(end - begin)
            spoiled = FAULTS[fault](entry, data)
            if spoiled == data:
                continue
            file.seek(begin)
            file.write(spoiled)
        return name
    return None


def run(words, fault, log):
    status = subprocess.run(words, check=False).returncode
    if status != 0:
        sys.exit(status if status > 0 else 128 - status)
    request = read_request(words[-1])
    name = plant(request, fault)
    if name is None:
        print(f"nothing in this answer can be {fault}", file=sys.stderr)
        sys.exit(UNSUPPORTED)
    print(f"planted: {name} is {fault}", file=sys.stderr)
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps({"case": request.case, "tensor": name, "fault": fault}) + "\n")


def checks_by_case(path):
    out = {}
    for check in json.loads(Path(path).read_text(encoding="utf-8"))["checks"]:
        out.setdefault(check.get("case") or "", []).append(check)
    return out


def passed(report):
    for case, checks in checks_by_case(report).items():
        if case and all(check["status"] == "pass" for check in checks):
            print(case)


def check(log, report):
    by_case, missed, planted = checks_by_case(report), [], 0
    for line in Path(log).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        planted += 1
        if not any(c["status"] == "fail" and row["tensor"] in c.get("subjects", []) for c in by_case.get(row["case"], [])):
            missed.append(row)
    for row in missed:
        print(f"missed: {row['case']}: {row['tensor']} {row['fault']}")
    print(f"planted faults named with their tensor: {planted - len(missed)} of {planted}")
    sys.exit(1 if missed or planted == 0 else 0)


def main():
    words, fault, log = sys.argv[1:], os.environ.get("PLANTED_FAULT", "transposed"), os.environ.get("PLANTED_LOG")
    if words[:1] == ["--passed"] and len(words) == 2:
        return passed(words[1])
    if words[:1] == ["--check"] and len(words) == 3:
        return check(words[1], words[2])
    while words[:1] in (["--fault"], ["--log"]) and len(words) > 1:
        if words[0] == "--fault":
            fault = words[1]
        else:
            log = words[1]
        words = words[2:]
    if len(words) < 2 or fault not in FAULTS:
        sys.exit(__doc__)
    return run(words, fault, log)


if __name__ == "__main__":
    main()
