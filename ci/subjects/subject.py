# SPDX-License-Identifier: Apache-2.0
"""What every Python subject does with a request: read it, say what is not supported, end with the right status."""
import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

UNSUPPORTED = 77


class Unsupported(Exception):
    """The subject does not do what is asked; the text says why."""


@dataclass
class Request:
    case: str
    family: str
    checkpoint: Path
    wanted: str  # "state" or "export"
    names: str  # "stored" or "native"
    dtype: str  # "stored", "bf16", "f32", "f16"
    topology: str | None
    rank: int | None
    output: Path

    def config(self):
        """config.json as a dictionary; empty where there is none."""
        path = self.checkpoint / "config.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def read_request(path):
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    if document["schema"] != "weightproof.request/1":
        raise Unsupported(f"a request of another schema: {document['schema']}")
    fields = {name: document[name] for name in ("case", "family", "wanted", "names", "dtype", "topology", "rank")}
    return Request(checkpoint=Path(document["checkpoint"]), output=Path(document["output"]), **fields)


def run(answer):
    """Calls answer(request) for the request named on the command line and ends the process."""
    try:
        request = read_request(sys.argv[1])
        if request.topology is not None:
            raise Unsupported("only whole models, no ranks")
        answer(request)
    except Unsupported as reason:
        print(reason, file=sys.stderr)
        sys.exit(UNSUPPORTED)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    sys.exit(0)
