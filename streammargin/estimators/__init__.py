"""The scikit-learn estimators."""

from streammargin.estimators.by_folds import KernelMarginClassifierCV, MarginClassifierCV, MarginRegressorCV
from streammargin.estimators.classifier import MarginClassifier
from streammargin.estimators.machines import KernelMarginClassifier, KernelMarginRegressor
from streammargin.estimators.regressors import InterpolatingRegressor, MarginRegressor

__all__ = [
    "InterpolatingRegressor", "KernelMarginClassifier", "KernelMarginClassifierCV", "KernelMarginRegressor",
    "MarginClassifier", "MarginClassifierCV", "MarginRegressor", "MarginRegressorCV",
]  # fmt: skip
