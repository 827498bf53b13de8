"""Settings that must be made before anything is imported."""

import os

# scikit-learn skips its check of other arrays than numpy's without it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
