"""Sphinx's settings for these pages: `sphinx-build -W --keep-going -b html docs OUT`. Nothing is fetched."""

import os

# What is documented is imported; Thunder's own import warns of nothing that concerns these pages.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from thunder_gemm_ex import __version__

project = "thunder_gemm_ex"
author = "The thunder_gemm_ex developers"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_title = f"thunder_gemm_ex {release}"
html_static_path = []
html_copy_source = False
html_show_sphinx = False

# `x` in a docstring is code, as it is in these pages.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
myst_heading_anchors = 3
smartquotes = False
highlight_language = "none"
