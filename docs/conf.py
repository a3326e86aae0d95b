"""The book's settings. `make docs` builds it; a warning is an error there."""

from urllib.parse import urlsplit

from docutils import nodes
from sphinx.util import logging

project = "falaj"
html_title = "falaj"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["requirements.txt"]

# Anchors that headings have on a repository's page, too; a link to one that is not there is an error.
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["book.css"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_copyright = False
# No word is a link to a site of somebody else's: the book reads the same without a network.
html_theme_options = {"navigation_with_keys": True}


def well_formed(app, doctree, name):
    """An address outside is not fetched, but it must be one."""
    for link in doctree.findall(nodes.reference):
        address = link.get("refuri", "")
        if link.get("internal") or not address or address.startswith("#"):
            continue
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or "." not in parts.netloc or set(address) & set(" <>\"'`"):
            logging.getLogger(__name__).warning("no address: %s", address, location=link)


def setup(app):
    app.connect("doctree-resolved", well_formed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
