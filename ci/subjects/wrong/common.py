# SPDX-License-Identifier: Apache-2.0
"""The numpy reader with one thing done wrong: what each wrong subject shares."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy_reader as reader  # noqa: E402
from subject import Unsupported, run  # noqa: E402, F401


def run_with(fault):
    """Loads rightly, lets `fault` change {name: Tensor} in place, and answers."""

    def answer(request):
        if request.names != "stored":
            raise Unsupported("names of the running model")
        tensors = reader.load(request)
        fault(tensors)
        reader.write(request, tensors)

    run(answer)


def changed(tensor, raw):
    return reader.Tensor(tensor.dtype, raw)
