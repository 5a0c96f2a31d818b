"""How Sphinx makes the site of these pages: sphinx-build -W -n docs build/site.

autodoc imports the package, because the docstrings that list options are filled when they are loaded.
"""

import sys
from pathlib import Path

import streammargin

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import classes_of, process  # beside this file

project = "streammargin"
release = version = streammargin.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
nitpicky = True

myst_heading_anchors = 3
myst_enable_extensions = ["substitution"]  # {{ losses }} on a page: all classes of streammargin.losses
myst_substitutions = {name: classes_of(name) for name in ("losses", "penalties", "solvers")}
highlight_language = "none"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types stand in the docstrings, in words
autodoc_inherit_docstrings = False  # what a class only overrides is described where it comes from

html_theme = "pydata_sphinx_theme"
html_title = "streammargin"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["globaltoc.html"]}  # all pages beside each of them
html_theme_options = {
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
copyright = "the streammargin developers, BSD-3 licence"


def setup(app):
    app.connect("autodoc-process-docstring", process)
