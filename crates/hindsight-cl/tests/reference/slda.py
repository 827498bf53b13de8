"""Streaming LDA in NumPy: class means and the scatter matrix sample by sample, the inverse of the shrunk covariance, the
posterior of each query."""
import numpy as np

from common import *

draw = Draw(1)
SHRINKAGE = 0.05
batches, queries = [draw.batch(8) for _ in range(3)], draw.images(7)
means, counts, scatter, seen = np.zeros((CLASSES, INPUTS)), np.zeros(CLASSES), np.zeros((INPUTS, INPUTS)), 0
for batch in batches:
    for x, y in zip(batch["x"].numpy(), batch["y"].tolist()):
        scatter += seen / (seen + 1) * np.outer(x - means[y], x - means[y])
        means[y] = (counts[y] * means[y] + x) / (counts[y] + 1)
        counts[y] += 1
        seen += 1
inverse = np.linalg.inv((1 - SHRINKAGE) * scatter / seen + SHRINKAGE * np.eye(INPUTS))
scores = queries.numpy() @ inverse @ means.T - 0.5 * np.diag(means @ inverse @ means.T)
odds = np.exp(scores - scores.max(1, keepdims=True))
Path(__file__).with_suffix(".json").write_text(json.dumps({
    "sizes": SIZES, "shrinkage": SHRINKAGE, "batches": batches, "queries": queries,
    "means": means, "scatter": scatter, "probabilities": odds / odds.sum(1, keepdims=True), "answers": scores.argmax(1),
}, default=lambda t: t.tolist(), separators=(",", ":")) + "\n")
