"""Learns continually on the features of a frozen PyTorch module.

    pip install hindsight-cl torch scikit-learn
    python examples/torch_features.py

The module stands for a pretrained backbone (`torchvision.models`, `timm`, `transformers`): here it is a small
convolutional network with random weights, which need not be fetched. Its tensors go to the agent as they are: memory
is shared, nothing is copied. The digits come two classes at a time; the agent is asked about all classes so far.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import hindsight

torch.manual_seed(0)
backbone = torch.nn.Sequential(
    torch.nn.Conv2d(1, 32, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(32, 64, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(2),
    torch.nn.Flatten(),
).eval()


@torch.no_grad()
def features(images):
    """Images of shape (samples, 64) to features of shape (samples, 256)."""
    return backbone(torch.as_tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16)


def main():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    tests = features(X_test)
    for method in ("finetune", "er-ring", "hal"):
        agent = hindsight.Agent(tests.shape[1], method=method, hidden=[128], slots=10, rate=0.03, seed=0)
        accuracy = []
        for task in range(5):
            rows = y // 2 == task
            agent.observe(features(X[rows]), y[rows], task=task, epochs=3)
            agent.end_task()
            seen = y_test // 2 <= task
            accuracy.append((agent.predict(tests[seen]) == y_test[seen]).mean())
        print(f"{method:10}", *(f"{100 * a:5.1f}" for a in accuracy), "% of all classes so far")


if __name__ == "__main__":
    main()
