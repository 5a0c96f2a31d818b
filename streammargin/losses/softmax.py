"""Softmax, the logistic loss of several classes: phi(z) = log sum_k exp(z_k) - z_own.

Its duals on the unit scale are probabilities p: a line of another class has a_g = cap p_g, the row's own line has
a_own = cap (1 - p_own), the sum of the others. The dual is the entropy of p. The exact step solves

    log p_k + kappa (p_k - q_k) = z_k - mu,  sum p = 1,  kappa = cap L, q: the centre

by Newton's method on log sum p(mu), inside a bracket. Each p_k is kappa times Lambert's W, for which there is an
iteration of fourth order (Fritsch, Shafer and Crowley 1973).

Source: outputs of multinomial logistic regression as duals, Collins et al. 2008; the step, Shalev-Shwartz and Zhang
2014, Accelerated proximal stochastic dual coordinate ascent, section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.exponentials import exp_minus, logarithm
from streammargin.losses.simplex import feasible, middle, own_line

SMALL = 1e-300  # a probability below it counts as 0
FLAT = 690.0  # exp(-FLAT) is above SMALL; smaller probabilities are taken for this one
MOST = 60  # of Newton steps; three to five are usual


class SoftmaxTerms(NamedTuple):
    """phi(z) = log sum_k exp(z_k) - z_own."""

    tolerance: float  # relative size of the last Newton step

    def has_hard_margin(self):
        return False

    def curvature_bound(self):
        return 0.5

    def part(self, p, own):
        """A line's part of minus the dual, on the unit scale."""
        return p * math.log(p) if p > 0.0 else 0.0

    def coupled_step(self, u, signs, off, centres, cap, L, a):
        own, top = own_line(signs), 0
        for g in range(u.size):
            if signs[g] * u[g] > signs[top] * u[top]:
                top = g
        highest = signs[top] * u[top]
        for g in range(u.size):
            a[g] = exp_minus(highest - signs[g] * u[g])
        a[top] = 0.0  # of the others first: their sum may be far below 1
        rest, met = 0.0, 0.0
        for g in range(u.size):
            rest += a[g]
            met += a[g] * (highest - signs[g] * u[g])
        a[top] = 1.0
        level, scale = math.log1p(rest), cap / (1.0 + rest)
        others, moved, widest = 0.0, 0.0, 0.0
        a[own] = 0.0
        for g in range(u.size):
            a[g] *= scale
            others += a[g]
            moved += a[g] * off[g]
            widest = max(widest, off[g])
        a[own] = others
        value = cap * (highest - u[own] + level)
        slip = min(moved + others * off[own] + 0.5 * cap * widest * widest, 2.0 * cap * widest)
        if L == 0.0:
            return value, cap * (level + met / (1.0 + rest)), slip
        if L < math.inf:
            self.softened(u, signs, centres, cap, L, highest, own, a)
        else:
            for g in range(u.size):
                a[g] = centres[g]
            feasible(signs, cap, a)
        return value, self.coupled_dual(signs, cap, a), slip

    def softened(self, u, signs, centres, cap, L, highest, own, a):
        """Fill a with the step for L > 0; highest: the largest score."""
        kappa = cap * L
        most = own
        for g in range(u.size):
            a[g] = (cap - centres[g] if g == own else centres[g]) / cap  # q
            if a[g] > a[most]:
                most = g
        # at this mu the largest probability stays as it is
        mu = signs[most] * u[most] - highest - math.log(max(a[most], SMALL))
        low, high = -math.inf, math.inf
        log_kappa, step, before, fresh = math.log(kappa), 0.0, mu, True
        for _ in range(MOST):
            total, bend = 0.0, 0.0
            for g in range(u.size):
                q = (cap - centres[g] if g == own else centres[g]) / cap
                t = min(max((signs[g] * u[g] - highest) - mu + kappa * q, -FLAT), FLAT)
                p = self.first_guess(t, kappa, log_kappa) if fresh else self.followed(a[g], before - mu, kappa)
                p = self.refined(p, t, kappa)
                a[g] = self.refined(p, t, kappa) if fresh else p
            for g in range(u.size):
                total += a[g]
                bend += a[g] / (1.0 + kappa * a[g])
            if total >= 1.0:
                low = mu
            else:
                high = mu
            step = math.log(total) * total / bend
            if abs(step) <= self.tolerance * (1.0 + abs(mu)):
                break
            before, mu = mu, mu + step
            if not low < mu < high:
                mu = before + (total - 1.0) / bend  # the sum is convex: from the left this step is never too long
                if not low < mu < high:
                    mu = 0.5 * (low + high)
            if mu == before:
                break
            fresh = abs(mu - before) > 0.5
        others = 0.0
        for g in range(u.size):
            a[g] = cap * (a[g] - step * a[g] / (1.0 + kappa * a[g])) if g != own else 0.0
            others += a[g]
        a[own] = others
        if others > cap:
            feasible(signs, cap, a)

    def first_guess(self, t, kappa, log_kappa):
        """p with log p + kappa p = t to a tenth of its size."""
        e = 1.0 / exp_minus(t) if t > 0.0 else exp_minus(-t)
        y, x = min(kappa * e, 3.0), max(t + log_kappa, 1.0)
        log_x = logarithm(x)
        near = e * (1.0 + y * (4.0 / 3.0)) / (1.0 + y * (7.0 / 3.0 + y * (5.0 / 6.0)))
        return near if t + log_kappa <= 1.0 else (x - log_x + log_x / x) / kappa

    def followed(self, p, change, kappa):
        """p after a small change of t."""
        d = change / (1.0 + kappa * p)
        return p * (1.0 + d * (1.0 + 0.5 * d))

    def refined(self, p, t, kappa):
        """p after a step of fourth order towards log p + kappa p = t."""
        w = kappa * p
        r = t - w - logarithm(p)
        v = 1.0 + w
        z = v * (v + r * (2.0 / 3.0))
        return max(p * (1.0 + (r / v) * ((z - 0.5 * r) / (z - r))), SMALL)

    def coupled_feasible(self, signs, cap, a):
        feasible(signs, cap, a)

    def coupled_dual(self, signs, cap, a):
        """The row's share of the dual: the entropy of the probabilities, times cap."""
        entropy = 0.0
        for g in range(a.size):
            if signs[g] > 0.0:
                rest = min(a[g] / cap, 1.0)
                entropy -= (1.0 - rest) * math.log1p(-rest) if rest < 1.0 else 0.0
        for g in range(a.size):
            p = 0.0 if signs[g] > 0.0 else a[g] / cap
            entropy -= p * logarithm(max(p, SMALL))
        return cap * entropy

    def coupled_slopes(self, u, signs, centres, cap, L, a, straight, crossed):
        total = 0.0
        for g in range(a.size):
            p = max(cap - a[g], 0.0) if signs[g] > 0.0 else a[g]
            straight[g] = p / (1.0 + L * p)
            total += straight[g]
        scale = 1.0 / math.sqrt(total) if total > 0.0 else 0.0
        for g in range(a.size):
            crossed[g] = straight[g] * scale

    def coupled_middle(self, signs, cap, a):
        middle(signs, cap, a)

    def log_likelihoods(self, scores):
        moved = scores - scores.max(axis=1, keepdims=True)
        return moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
