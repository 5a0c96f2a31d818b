"""scikit-learn's own checks of estimators, as a decorator of a test."""

from typing import Any

import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks

# from this version on it can be told that checks which are said to fail do fail; our own configuration says it, too
STRICT = {"xfail_strict": True} if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8) else {}


def suite(*estimators: Any, expected_failures: Any = None) -> Any:
    """The checks of these estimators; expected_failures(estimator): the reason by name of each check that must fail."""
    return parametrize_with_checks([*estimators], expected_failed_checks=expected_failures, **STRICT)
