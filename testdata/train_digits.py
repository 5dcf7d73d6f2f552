"""Trains the digits network and writes digits.pt2, digits.case.safetensors and digits.safetensors:

    python3 testdata/train_digits.py

Needs PyTorch 2.13 and scikit-learn (for the images). digits.safetensors holds 120 images that it was not trained on, their
labels, and PyTorch's logits and predictions.
"""

import os

import torch
from torch import nn

from digits_net import HELD_OUT, DigitsNet, load_images
from record import record, write_safetensors

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    images, labels = load_images()
    images = images.float() / 16
    train_images, train_labels = images[:-HELD_OUT], labels[:-HELD_OUT]
    images, labels = images[-HELD_OUT:].clone(), labels[-HELD_OUT:].clone()

    torch.manual_seed(7)
    net = DigitsNet().train()
    epochs, batch = 30, 32
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for chosen in torch.randperm(len(train_labels)).split(batch):
            loss = nn.functional.cross_entropy(net(train_images[chosen]), train_labels[chosen], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()

    net = net.eval()
    with torch.no_grad():
        logits = net(images)
        predictions = logits.argmax(1)
        train_right = (net(train_images).argmax(1) == train_labels).float().mean()
    right = int((predictions == labels).sum())
    print(f"{right} of {HELD_OUT} held-out images right, {train_right:.2%} of the others, last loss {float(loss):.4f}")

    found = record(net, [(images[:7].clone(),), (images[7:40].clone(),), (images[:1].clone(),)],
                   os.path.join(HERE, "digits"),
                   dynamic_shapes={"images": {
                       0: torch.export.Dim("batch", min=1, max=4096)
                   }},
                   example=(images[:7].clone(),))
    print("\n".join(found))
    write_safetensors(
        os.path.join(HERE, "digits.safetensors"), {
            "images": ("F32", images.shape, images.numpy().tobytes()),
            "labels": ("I64", labels.shape, labels.numpy().tobytes()),
            "logits": ("F32", logits.shape, logits.numpy().tobytes()),
            "predictions": ("I64", predictions.shape, predictions.numpy().tobytes()),
        }, {"source": "scikit-learn's load_digits; logits and predictions are PyTorch's"})


if __name__ == "__main__":
    main()
