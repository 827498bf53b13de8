"""RanPAC in NumPy: sums of h^T h and h^T onehot(y) over three batches, ridge regression on all of them."""
import numpy as np

from common import *

draw = Draw(1)
UNITS, RIDGE = 5, 0.3
projection = draw.normal(INPUTS, UNITS)
batches, queries = [draw.batch(8) for _ in range(3)], draw.images(7)
everything = {key: torch.cat([batch[key] for batch in batches]).numpy() for key in ("x", "y")}
h = np.maximum(everything["x"] @ projection.numpy(), 0)
gram = h.T @ h
weights = np.linalg.solve(gram + RIDGE * np.eye(UNITS), h.T @ np.eye(CLASSES)[everything["y"]])
scores = np.maximum(queries.numpy() @ projection.numpy(), 0) @ weights
top = np.sort(scores, 1)
assert (top[:, -1] - top[:, -2]).min() > 1e-3
Path(__file__).with_suffix(".json").write_text(json.dumps({
    "sizes": SIZES, "ridge": RIDGE, "projection": projection, "batches": batches, "queries": queries, "gram": gram,
    "weights": weights, "answers": scores.argmax(1),
}, default=lambda t: t.tolist(), separators=(",", ":")) + "\n")
