"""The scikit-learn estimators."""

from streammargin.estimators.classifier import MarginClassifier
from streammargin.estimators.machines import KernelMarginClassifier, KernelMarginRegressor
from streammargin.estimators.regressors import InterpolatingRegressor, MarginRegressor

__all__ = [
    "InterpolatingRegressor", "KernelMarginClassifier", "KernelMarginRegressor", "MarginClassifier", "MarginRegressor",
]  # fmt: skip
