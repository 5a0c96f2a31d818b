"""Methods that an estimator has with some parameters only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class AvailableIf:
    """Decorates a method: `check(estimator)` raises the AttributeError that explains why it is not there.

    So `hasattr` is false, as scikit-learn expects; its `available_if` hides the explanation in the cause of another
    error.
    """

    def __init__(self, check: Callable[[Any], None]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> AvailableIf:
        self.method = method
        functools.update_wrapper(self, method)
        return self

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:  # of the class: help and pages show it
            return self.method
        self.check(estimator)
        return self.method.__get__(estimator, owner)
