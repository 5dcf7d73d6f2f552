"""Runs a model that calls operators of its author's own: custom_operators.py smoother.smb"""

import sys

import numpy as np
import smelt


@smelt.register_op("mylib::push_")
def push_(window, row):
    window[:-1] = window[1:].copy()
    window[-1] = row


@smelt.register_op("mylib::soft_clip")
def soft_clip(x, limit):
    return x / (1 + np.abs(x / np.float32(limit)))


def main():
    model = smelt.load(sys.argv[1])
    for call in (1, 2, 3):
        mean, newest = model(np.full(6, call, np.float32), np.full(6, 2, np.float32))
        print(f"mean {mean[0]:.6f}, newest {newest[0]:.1f}")


if __name__ == "__main__":
    main()
