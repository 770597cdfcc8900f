"""How Sphinx makes the site of this repository's Markdown: `make docs`.

The source folder is the repository itself, so that links between pages, results and files lead to
the same place here as on a forge: `sphinx-build -W -c docs . docs/_build/html`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

import flr  # noqa: E402

project = "flr"
author = "The flr authors"
project_copyright = author
version = release = flr.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "_site.links",
    "_site.gallery",
    "_site.samples",
    "_site.front",
]
root_doc = "docs/README"
include_patterns = [
    "docs/*.md",
    "docs/*/*.md",
    "docs/*/*.ipynb",
    "results/*.md",
    "results/bench/*.md",
    "benchmarks/README.md",
    *("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"),
]
# Folders that Sphinx need not walk through.
exclude_patterns = ["docs/_build", "src", "tests", "tools", "runs", "node_modules", ".*", "dist"]

# Headings get the anchors that a forge gives them.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages of results begin tables below their own headings

nb_execution_mode = "cache"
nb_execution_in_temp = True  # notebooks write folders, which do not belong here
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_custom_sections = ["Equation", "Leaves the site"]
default_role = "code"  # docstrings have single backticks, as Markdown has

html_theme = "furo"
html_title = f"flr {release}"
html_static_path = ["_site/static"]
html_css_files = ["flr.css"]
html_copy_source = False
html_show_sphinx = False
