"""The digits network, shared by train_digits.py (which trains it) and make_train_step.py (which exports its training)."""

import torch
from torch import nn
from torch.nn import functional as F


class DigitsNet(nn.Module):
    """Logits [N, 10] of images [N, 1, 8, 8] with values between 0 and 1."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 24, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(24 * 4 * 4, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, images):
        y = F.relu(self.norm1(self.conv1(images)), inplace=True)
        y = self.pool(F.relu(self.conv2(y), inplace=True))
        y = torch.relu_(self.fc1(y.flatten(1)))
        return self.fc2(y)


def load_images():
    """scikit-learn's 1,797 digits as (images [N, 1, 8, 8] uint8 from 0 to 16, labels [N]), shuffled: train on all but
    the last 120."""
    from sklearn.datasets import load_digits
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(digits.images, dtype=torch.uint8).unsqueeze(1)[order]
    return images, torch.tensor(digits.target, dtype=torch.int64)[order]


HELD_OUT = 120
