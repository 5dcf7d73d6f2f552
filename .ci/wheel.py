#!/usr/bin/env python3
"""Compiles testdata/digits.pt2 with the Python package that is installed, and compares the answer with PyTorch's.

    wheel.py MODEL BUNDLE              writes the bundle
    wheel.py MODEL BUNDLE EMULATOR     the same where the system starts no program for the package's machine, but the emulator does
"""

import subprocess
import sys

import numpy
import smelt

if len(sys.argv) > 3:
    run = subprocess.run
    subprocess.run = lambda command, **options: run([sys.argv[3], *command], **options)

# A batch of the same image, twice.
shades = numpy.array([[0, 3, 13, 16, 9, 0, 0, 0], [0, 10, 15, 13, 15, 2, 0, 0], [0, 15, 4, 4, 16, 1, 0, 0], [0, 0, 0, 5, 16, 2, 0, 0],
                      [0, 0, 1, 14, 13, 0, 0, 0], [0, 0, 10, 16, 5, 0, 0, 0], [0, 4, 16, 13, 8, 10, 9, 1], [0, 2, 16, 16, 14, 12, 9, 1]])
images = numpy.broadcast_to(shades.astype("float32") / 16, (2, 1, 8, 8)).copy()
logits = smelt.load(smelt.compile(sys.argv[1], sys.argv[2]))(images)
best = int(logits[1].argmax())
print(f"wheel: digit {best}, score {logits[1][best]:.4f}")
sys.exit(0 if best == 2 and abs(logits[1][best] - 4.5494166) < 1e-4 else 1)
