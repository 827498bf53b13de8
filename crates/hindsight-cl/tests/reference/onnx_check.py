#!/usr/bin/env python3
"""Compares an exported model with what the agent answers, by ONNX Runtime.

    onnx_check.py FOLDER

FOLDER has model.onnx, and in case.json the inputs and the probabilities that the agent gives for them; all rows at
once and each alone must agree. Needs numpy, onnx and onnxruntime. `tests/onnx.rs` calls it where the environment
variable HINDSIGHT_ONNX_PYTHON names a Python that has them.
"""
import json
import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime

folder = Path(sys.argv[1])
onnx.checker.check_model(onnx.load(folder / "model.onnx"), full_check=True)
case = json.loads((folder / "case.json").read_text())
session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == case["classes"]
x = numpy.array(case["x"], dtype="float32").reshape([-1, *case["shape"]])
expected = numpy.array(case["probabilities"]).reshape(len(x), -1)
logits, probabilities = session.run(["logits", "probabilities"], {"x": x})
one = session.run(["probabilities"], {"x": x[:1]})[0]
assert logits.shape == probabilities.shape == expected.shape, (logits.shape, expected.shape)
worst = max(abs(probabilities - expected).max(), abs(one - expected[:1]).max())
print(f"{len(x)} rows, largest difference of a probability {worst:.1e}")
assert worst < 1e-5, worst
