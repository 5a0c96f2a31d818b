"""A report on a model: one HTML page that stands alone, the short form for notebooks, and charts by matplotlib.

`page.py` puts the cards in order. Each chart has a file; `axes.py` draws scales and lines, `text.py` writes HTML.
"""
