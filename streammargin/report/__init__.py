"""A report on a model: one HTML page that stands alone, the short form for notebooks, and charts by matplotlib.

`page.py` has the cards, `charts.py` their charts, and `html.py` writes text and numbers.
"""
