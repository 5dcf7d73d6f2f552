"""Exports the models of these tests whose calls are nested: python3 make_models.py (needs PyTorch)."""

import pathlib

import torch

HERE = pathlib.Path(__file__).resolve().parent


class Nested(torch.nn.Module):
    """Everything a signature can nest: dictionaries, lists and tuples, numbers, keywords, a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, parts, *, scale, mode="sum"):
        self.calls.add_(1)
        y = x * scale + parts["k"][0] - parts["k"][1]
        total = y.sum(-1) if mode == "sum" else y.mean(-1)
        return {"logits": y, "aux": (total, [x.shape[0], None]), "calls": self.calls.clone(), "first": x[0]}


class Written(torch.nn.Module):
    """Writes one argument, returns another, a view of it, and a number."""

    def forward(self, x, y):
        x.add_(1)
        return x, y.t(), y, 7


def main():
    rows = torch.export.Dim("rows", min=1, max=4096)
    x, k = torch.randn(3, 4), [torch.randn(3, 4), torch.randn(4)]
    program = torch.export.export(
        Nested(), (x, {"k": k}), {"scale": 2.0, "mode": "sum"},
        dynamic_shapes={"x": {0: rows}, "parts": {"k": [{0: rows}, None]}, "scale": None, "mode": None},
    )  # fmt: skip
    torch.export.save(program, HERE / "nested.pt2")
    torch.export.save(torch.export.export(Written(), (torch.randn(2, 3), torch.randn(2, 3))), HERE / "written.pt2")


if __name__ == "__main__":
    main()
