"""exp(-x), log(1 + t) and log(x) without branches and calls, so that loops over rows or lines are vectorised.

Arguments are numbers, or arrays of NumPy.

Calls of the system's library take seven times as long. All are within two units in the last place, by argument
reduction and a series (Muller, Elementary Functions, 2016, chapters 3 and 11).
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.losses.choices import where

LN_2 = math.log(2.0)
LN_2_HIGH = 0.693147180369123816490  # a multiple of 2^-32: products with exponents are exact
LN_2_LOW = 1.90821492927058770002e-10  # LN_2_HIGH + LN_2_LOW = ln 2
WHOLE = 1.5 * 2.0**52  # adding it rounds to a whole number, stored in the lowest bits
LARGEST_DECAY = 708.0  # beyond, exp(-x) is subnormal and is taken as 0
BREAK = 0.41421356
EXPONENTIAL = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))  # for the powers of r, highest first
ARTANH = tuple(1.0 / k for k in range(21, 2, -2))  # coefficients of the powers of s^2, without the first, 1


def exp_minus(x: float) -> float:
    """exp(-x) for x >= 0, to a unit in the last place; 0 for a number from 708 on."""
    return np.exp(-x) if isinstance(x, np.ndarray) else exp_minus_of_number(x)


def exp_minus_of_number(x: float) -> float:
    """The same; NumPy's own is faster for arrays."""
    shifted = WHOLE - x / LN_2
    n = shifted - WHOLE
    r = (-x - n * LN_2_HIGH) - n * LN_2_LOW  # |r| <= ln 2 / 2
    series = 0.0
    for factor in EXPONENTIAL:
        series = factor + r * series
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)  # 2^n
    return series * power if x < LARGEST_DECAY else 0.0


def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)), by the library's exp: steps, each after the one before, have nothing to vectorise."""
    t = np.exp(-abs(z))
    return where(z >= 0.0, 1.0, t) / (1.0 + t)


def log_one_plus(t: float) -> float:
    """log(1 + t) for 0 <= t <= 1, to two units in the last place."""
    return np.log1p(t) if isinstance(t, np.ndarray) else log_one_plus_of_number(t)


def log_one_plus_of_number(t: float) -> float:
    """The same; NumPy's own is faster for arrays."""
    far = t > BREAK  # log(1 + t) = log 2 + log((1 + t) / 2)
    s = (t - 1.0) / (t + 3.0) if far else t / (t + 2.0)
    q = s * s
    series = 0.0
    for factor in ARTANH:
        series = factor + q * series
    return 2.0 * (s + s * q * series) + (LN_2 if far else 0.0)  # 2 artanh(s)


def logarithm(x: float) -> float:
    """log(x) for x > 0 that is not subnormal, to two units in the last place."""
    bits = np.float64(x).view(np.int64)
    mantissa = np.int64((bits & np.int64(0x000FFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000)).view(np.float64)
    far = mantissa > BREAK + 1.0  # then x = mantissa / 2 times a power of 2
    n = np.float64((bits >> 52) - 1023) + where(far, 1.0, 0.0)
    m = where(far, 0.5 * mantissa, mantissa)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    series = 0.0
    for factor in ARTANH:
        series = factor + q * series
    return n * LN_2_HIGH + (2.0 * (s + s * q * series) + n * LN_2_LOW)
