"""The scikit-learn estimators, a file each."""

from streammargin.estimators.classifier import MarginClassifier
from streammargin.estimators.regressor import InterpolatingRegressor

__all__ = ["InterpolatingRegressor", "MarginClassifier"]
