"""Numbers that an agent decides on: normally distributed, and drawn from uniform ones wherever a policy acts.

A policy computes means and deviations of what a game takes three times smaller, and cut to -1 and 1, as ml-agents.
"""

from __future__ import annotations

from math import log, pi, sqrt

import torch as th

#: What a policy decides on is so many times the number that the game gets.
SCALE = 3.0
LEAST_PROBABILITY = 1e-7  #: Added before a logarithm or a division.
_SMALLEST = 2.0**-25  #: Between 0 and the next of the uniform numbers, which has no finite quantile.
#: Polynomials of Giles, "Approximating the erfinv function" (2011), for the centre and for the tails.
_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04),
    *(-1.25372503e-03, -4.17768164e-03, 0.246640727, 1.50140941),
)
_TAILS = (
    *(-2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03),
    *(-7.6224613e-03, 9.43887047e-03, 1.00167406, 2.83297682),
)


def normal_quantile(uniforms: th.Tensor) -> th.Tensor:
    """Returns standard normal numbers for uniform ones from [0, 1), and 0, the most likely one, for negative ones.

    Unlike `torch.special.ndtri` it is made of operations that ONNX has, so that graphs draw the same numbers.
    """
    numbers = th.where(uniforms < 0, 0.5, uniforms).clamp(_SMALLEST, 1 - _SMALLEST * 2)
    squares = -th.log(4 * numbers * (1 - numbers))
    centre, tails = squares - 2.5, squares.sqrt() - 3
    shape = th.where(squares < 5, _polynomial(_CENTRE, centre), _polynomial(_TAILS, tails))
    return sqrt(2) * shape * (2 * numbers - 1)


def _polynomial(coefficients: tuple[float, ...], at: th.Tensor) -> th.Tensor:
    value = th.full_like(at, coefficients[0])
    for each in coefficients[1:]:
        value = each + value * at
    return value


def gaussian_log_prob(means: th.Tensor, log_std: th.Tensor, numbers: th.Tensor) -> th.Tensor:
    """Returns the logarithms of densities, one per dimension."""
    std = log_std.exp()
    squares = (numbers - means) ** 2 / (2 * std**2 + LEAST_PROBABILITY)
    return -squares - th.log(std + LEAST_PROBABILITY) - 0.5 * log(2 * pi)


def gaussian_entropy(log_std: th.Tensor) -> th.Tensor:
    """Returns the entropy of each dimension."""
    return log_std + 0.5 * (1 + log(2 * pi))
