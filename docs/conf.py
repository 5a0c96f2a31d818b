"""How Sphinx makes the site of these pages: sphinx-build -W -n docs build/site.

autodoc imports the package, because the docstrings that list options are filled when they are loaded.
"""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils.nodes import SkipNode, entry, literal, literal_block
from docutils.utils.math.latex2mathml import tex2mathml

import streammargin

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import process  # beside this file
from from_code import SUBSTITUTIONS, write_pages

project = "streammargin"
release = version = streammargin.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
extensions += [name for name in ["sphinx_copybutton"] if find_spec(name)]  # of the extra docs; the rest goes without
nitpicky = True

myst_heading_anchors = 3
myst_enable_extensions = [
    "substitution",  # {{ losses }} on a page: a table from the code
    "dollarmath",
    "deflist",
    "attrs_block",  # {.cards} above a list
    "attrs_inline",
]
myst_substitutions = SUBSTITUTIONS
nb_execution_mode = "auto"  # docs/cookbook: a notebook runs whenever its page is made
nb_execution_in_temp = nb_execution_raise_on_error = nb_merge_streams = True
nb_execution_timeout = 600  # seconds of a cell, on a busy machine
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # our commands
smartquotes = False  # two dashes begin an option
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures, of other packages too
autodoc_inherit_docstrings = False  # what a class only overrides is described where it comes from

MENU = ("index", "start", "guide", "cookbook", "reference", "develop")  # pages of cards alone
man_pages = [("commands", "streammargin", "train large-margin models on data larger than memory", "", 1)]
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "streammargin"
html_logo = html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "benchmarks": []}
html_theme_options = {
    "logo": {"text": "streammargin"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["version", "theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in MENU}},
    "navigation_depth": 1,  # API has no list of all classes beside each
    "show_toc_level": 2,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
copyright = "the streammargin developers, BSD-3 licence"


def _as_mathml(translator, node):
    """A formula as MathML, which browsers set by themselves, without a script from elsewhere."""
    made = tex2mathml(node.astext())
    if node.tagname == "math_block":
        made = made.replace("<math ", '<math display="block" ', 1)
    translator.body.append(made)
    raise SkipNode


def _mark_long_code(app, doctree, page):
    """Code with a word that may be wider than a telephone may break anywhere (site.css)."""
    for node in doctree.findall(literal):
        if max(map(len, node.astext().split()), default=0) > 28:
            node["classes"].append("long")


def _highlight_commands(app, doctree, page):
    """Indented code of a page is commands."""
    for node in doctree.findall(literal_block):
        if node["language"] == "none" and not page.startswith("api/"):
            node["language"] = "sh"


def _mark_cells(app, doctree, page):
    """On a telephone a cell with a sentence is not squeezed to a word a line, and numbers are not broken (site.css)."""
    for node in doctree.findall(entry):
        text = node.astext()
        if len(text) > 60:
            node["classes"].append("text")
        elif re.fullmatch(r"[-+\d.,e;()>% ]+", text):
            node["classes"].append("numbers")
        elif len(text) > 25 and " " in text:
            node["classes"].append("words")


def setup(app):
    app.add_html_math_renderer("mathml", (_as_mathml, None), (_as_mathml, None))
    write_pages(Path(__file__).parent)
    app.connect("autodoc-process-docstring", process)
    app.connect("doctree-resolved", _mark_long_code)
    app.connect("doctree-resolved", _mark_cells)
    app.connect("doctree-resolved", _highlight_commands)
