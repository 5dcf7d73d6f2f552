"""Optimizers whose step is one operator over lists of tensors (fused=True), and the gradient scaler's operators."""

import torch

from scenario_kit import scenario


def parameters(dtype=torch.float32, states=2, scale=None, found=None, step=3.0):
    """Two parameters of 19 and 2x3 elements, their gradients and states, which are not negative, a count of steps; the
    scaler's scale and whether it has found an infinite gradient."""

    def make():
        lists = [[torch.randn(19).to(dtype), torch.randn(2, 3).to(dtype)] for _ in range(2)]
        lists += [[torch.rand(19).to(dtype), torch.rand(2, 3).to(dtype)] for _ in range(states)]
        out = [*lists, torch.tensor(step)]
        if scale is not None:
            out += [torch.tensor([scale]), torch.tensor(float(found))]
        return tuple(out)

    return make


def counts(n):
    return [n, n.clone()]


@scenario(parameters(states=1, scale=8.0, found=0), parameters(states=1, scale=8.0, found=1))
def fused_sgd_with_a_scaler(params, grads, momenta, step, scale, found):
    torch._fused_sgd_(params, grads, momenta, weight_decay=0.1, momentum=0.9, lr=0.01, dampening=0.0, nesterov=True,
                      maximize=False, is_first_step=False, grad_scale=scale, found_inf=found)
    return params[0] * 2, grads[1] + 1


@scenario(parameters(torch.float64, states=1))
def fused_sgd_of_doubles(params, grads, momenta, step):
    options = dict(lr=0.01, nesterov=False, maximize=True)
    torch._fused_sgd_(params, grads, momenta, weight_decay=0.0, momentum=0.9, dampening=0.3, is_first_step=True,
                      **options)
    torch._fused_sgd_(params, grads, momenta, weight_decay=0.1, momentum=0.9, dampening=0.3, is_first_step=False,
                      **options)
    torch._fused_sgd_(params, grads, [], weight_decay=0.1, momentum=0.0, dampening=0.0, is_first_step=False, **options)
    return momenta[0] - params[0]


@scenario(parameters(states=1))
def fused_sgd_with_its_rate_in_a_tensor(params, grads, momenta, step):
    torch.ops.aten._fused_sgd_.tensor_lr(params, grads, momenta, weight_decay=0.1, momentum=0.5, lr=step * 0.01,
                                         dampening=0.1, nesterov=False, maximize=False, is_first_step=False)
    return params


@scenario(parameters(states=3, scale=4.0, found=0), parameters(states=3, scale=4.0, found=1))
def fused_adam_with_a_scaler(params, grads, means, squares, largest, step, scale, found):
    torch._fused_adam_(params, grads, means, squares, largest, counts(step), lr=0.01, beta1=0.9, beta2=0.99,
                       weight_decay=0.1, eps=1e-8, amsgrad=True, maximize=True, grad_scale=scale, found_inf=found)
    return grads[0] * 2


@scenario(parameters(torch.bfloat16, scale=4.0, found=0))
def fused_adamw_of_halves(params, grads, means, squares, step, scale, found):
    torch._fused_adamw_(params, grads, means, squares, [], counts(step), lr=0.01, beta1=0.8, beta2=0.99,
                        weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False, grad_scale=scale, found_inf=found)
    return params


@scenario(parameters(torch.float64))
def fused_adamw_with_its_rate_in_a_tensor(params, grads, means, squares, step):
    steps = counts(step)
    torch._foreach_add_(steps, 1)
    for amsgrad in (False, True):
        torch.ops.aten._fused_adamw_.tensor_lr(params, grads, means, squares, [m + 0.5 for m in means] if amsgrad else [],
                                               steps, lr=step * 0.001, beta1=0.3, beta2=0.99, weight_decay=0.1, eps=1e-6,
                                               amsgrad=amsgrad, maximize=amsgrad)
    return params[1] * 2


@scenario(parameters(states=1, scale=4.0, found=0), parameters(states=1, scale=4.0, found=1))
def fused_adagrad_with_a_scaler(params, grads, sums, step, scale, found):
    torch._fused_adagrad_(params, grads, sums, counts(step), lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-10,
                          maximize=True, grad_scale=scale, found_inf=found)
    return params


@scenario(parameters(torch.bfloat16, states=1))
def fused_adagrad_of_halves(params, grads, sums, step):
    torch._fused_adagrad_(params, grads, sums, counts(step), lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-10,
                          maximize=False)
    return params


def scaled(infinite, tracker):
    """Gradients of several dtypes and layouts, one perhaps infinite, and a scaler's state."""

    def make():
        x, y = torch.randn(3, 4), torch.randn(4, 3).t().double()
        if infinite:
            y[1, 2] = float("inf")
        z = torch.randn(5).half()
        return x, y, z, torch.zeros(1), torch.tensor([0.3]), torch.tensor(8.0), torch.tensor(tracker, dtype=torch.int32)

    return make


@scenario(scaled(False, 0), scaled(True, 1), scaled(False, 2))
def gradients_unscaled_and_the_scale_updated(x, y, z, found, inverse, scale, tracker):
    torch._amp_foreach_non_finite_check_and_unscale_([x, y, z], found, inverse)
    torch._amp_update_scale_(scale, tracker, found, 2.1, 0.3, 3)
    return x * scale
