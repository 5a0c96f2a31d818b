"""The scikit-learn estimators."""

from streammargin.estimators.classifier import MarginClassifier
from streammargin.estimators.regressors import InterpolatingRegressor, MarginRegressor

__all__ = ["InterpolatingRegressor", "MarginClassifier", "MarginRegressor"]
