"""Exports the example's model and records what eager PyTorch makes of it: python3 make_model.py (needs PyTorch).

Writes smoother.pt2, smoother.case.safetensors and operators.txt beside this file.
"""

import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "testdata"))
from record import record  # noqa: E402


@torch.library.custom_op("mylib::push_", mutates_args={"window"})
def push_(window: torch.Tensor, row: torch.Tensor) -> None:
    """Drops the oldest row of a window and appends one."""
    window[:-1] = window[1:].clone()
    window[-1] = row


@torch.library.custom_op("mylib::soft_clip", mutates_args=())
def soft_clip(x: torch.Tensor, limit: float) -> torch.Tensor:
    return x / (1 + (x / limit).abs())


@soft_clip.register_fake
def _(x, limit):
    return torch.empty_like(x)


class Smoother(torch.nn.Module):
    """Remembers the last four rows; returns their clipped mean and the newest row of its memory."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.zeros(4, 6))

    def forward(self, row, gain):
        torch.ops.mylib.push_(self.window, row * gain)
        clipped = torch.ops.mylib.soft_clip(self.window, 1.5)
        return clipped.mean(0) + 1, self.window[-1]


def main():
    generator = torch.Generator().manual_seed(0)
    calls = [(torch.randn(6, generator=generator), torch.randn(6, generator=generator)) for _ in range(3)]
    different = record(Smoother(), calls, str(HERE / "smoother"))
    assert different == [], different
    schemas = [str(getattr(torch.ops.mylib, name).default._schema) for name in ("push_", "soft_clip")]
    (HERE / "operators.txt").write_text("# The operators that smoother.pt2 calls.\n" + "\n".join(schemas) + "\n")


if __name__ == "__main__":
    main()
