"""Writes a training step of the digits network as a model, and what 100 steps of it do:

    python3 testdata/make_train_step.py

digits_train_step.pt2: forward, backward and SGD in place on the parameters, which are buffers, as are the running statistics;
it takes images and labels and returns the loss. digits_train_step.case.safetensors: two steps, one after the other.
digits_train.safetensors: the training images (uint8, 0 to 16; a model takes them divided by 16) and labels, the images'
numbers in each of 100 steps, PyTorch's losses, and the parameters afterwards.
"""

import copy
import os

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.func import functional_call, grad_and_value
from torch.nn import functional as F

from digits_net import HELD_OUT, DigitsNet, load_images
from record import record, write_safetensors

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH, RATE = 100, 32, 0.1


def step(net, params, buffers, images, labels):
    """One step of training in place on `params` and `buffers`; returns the loss."""

    def loss_of(params):
        statistics = {k: v.clone() for k, v in buffers.items()}  # a transform must not write what it did not make
        loss = F.cross_entropy(functional_call(net, (params, statistics), (images,)), labels)
        return loss, statistics

    gradients, (loss, statistics) = grad_and_value(loss_of, has_aux=True)(params)
    for name, p in params.items():
        p.sub_(RATE * gradients[name])
    for name, b in buffers.items():
        b.copy_(statistics[name])
    return loss


class TrainStep(torch.nn.Module):
    """The traced step, its parameters and statistics registered as buffers under the network's names, "." as "_"."""

    def __init__(self, net, images, labels):
        super().__init__()
        params = {k: v.detach().clone() for k, v in net.named_parameters()}
        buffers = {k: v.detach().clone() for k, v in net.named_buffers()}
        self.names = [k.replace(".", "_") for k in [*params, *buffers]]
        for name, t in zip(self.names, [*params.values(), *buffers.values()]):
            self.register_buffer(name, t)

        def flat_step(state, images, labels):
            state = dict(zip([*params, *buffers], state))
            return step(net, {k: state[k] for k in params}, {k: state[k] for k in buffers}, images, labels)

        state = [t.clone() for t in [*params.values(), *buffers.values()]]
        self.traced = make_fx(flat_step, tracing_mode="fake")(state, images, labels)

    def forward(self, images, labels):
        return self.traced([getattr(self, name) for name in self.names], images, labels)


def main():
    images, labels = load_images()
    images, labels = images[:-HELD_OUT].clone(), labels[:-HELD_OUT].clone()
    torch.manual_seed(11)
    net = DigitsNet().train()
    batches = torch.stack([torch.randperm(len(labels))[:BATCH] for _ in range(STEPS)])

    def args(i):
        return images[batches[i]].float() / 16, labels[batches[i]]

    module = TrainStep(net, *args(0))
    found = record(module, [args(0), args(1)], os.path.join(HERE, "digits_train_step"), rtol=1e-5)
    print("\n".join(found))

    losses = torch.stack([module(*args(i)) for i in range(STEPS)])
    plain = copy.deepcopy(net)  # the same by an ordinary loop: the traced step must not be the only witness
    optimizer = torch.optim.SGD(plain.parameters(), lr=RATE)
    for i in range(STEPS):
        loss = F.cross_entropy(plain(args(i)[0]), args(i)[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert abs(float(loss) - float(losses[i])) < 1e-3, (i, float(loss), float(losses[i]))
    print(f"loss {float(losses[0]):.4f} to {float(losses[-1]):.4f}")
    after = {"after." + name: getattr(module, name) for name in module.names}
    names = {torch.float32: "F32", torch.int64: "I64", torch.uint8: "U8"}
    tensors = {"images": images, "labels": labels, "batches": batches, "losses": losses, **after}
    write_safetensors(os.path.join(HERE, "digits_train.safetensors"), {
        k: (names[t.dtype], t.shape, t.numpy().tobytes()) for k, t in tensors.items()
    }, {"source": "scikit-learn's load_digits; losses and parameters are PyTorch's"})


if __name__ == "__main__":
    main()
