"""PyTorch's functionalization of the models of functionalize_bench.cc, by hand:

    python3 bench/functionalize/export_peer.py

Times run_decompositions() of an exported program, export itself not counted.
"""

import time

import torch


class WritesThroughViews(torch.nn.Module):
    def __init__(self, writes):
        super().__init__()
        self.writes = writes

    def forward(self, x):
        for i in range(self.writes):
            x[i % 64].add_(1)
        return x


class WritesToAFreshTensor(torch.nn.Module):
    def __init__(self, writes):
        super().__init__()
        self.writes = writes

    def forward(self, x):
        t = torch.relu(x)
        for _ in range(self.writes):
            t.add_(1)
        return t


class NestedViews(torch.nn.Module):
    def __init__(self, views):
        super().__init__()
        self.views = views

    def forward(self, x):
        v = x
        for _ in range(self.views):
            v = v.transpose(0, 1)
        v.add_(1)
        return v


def main():
    for module, sizes, shape in ((WritesThroughViews, (400, 1600), (64, 8)), (WritesToAFreshTensor, (400, 1600), (64, 8)),
                                 (NestedViews, (50, 100), (64, 64))):
        for n in sizes:
            program = torch.export.export(module(n), (torch.zeros(shape),))
            start = time.perf_counter()
            pure = program.run_decompositions({})
            seconds = time.perf_counter() - start
            print(f"{module.__name__:22} {n:6} {seconds:8.3f} s {len(list(pure.graph.nodes)):8} nodes", flush=True)


if __name__ == "__main__":
    main()
