"""Settings of the book. `make docs` builds the book and treats each warning as an error."""

from urllib.parse import urlsplit

from docutils import nodes
from sphinx.util import logging

project = "falaj"
html_title = "falaj"
extensions = ["myst_parser"]
exclude_patterns = ["requirements.txt"]

# Headings have the same anchors as on the repository's web page; a link to a missing anchor is an error.
myst_heading_anchors = 4

# A code block without a language shows output of the program; formulas keep their plain quotes.
highlight_language = "text"
smartquotes = False

html_theme = "furo"
html_static_path = ["book.css"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_copyright = False


def well_formed(app, doctree, page):
    """Warns of malformed links on a page. External addresses are not fetched."""
    for link in doctree.findall(nodes.reference):
        address = link.get("refuri", "")
        if link.get("internal") or not address or address.startswith("#"):
            continue
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or "." not in parts.netloc or set(address) & set(" <>\"'`"):
            logging.getLogger(__name__).warning("no address: %s", address, location=link)
    # A malformed link is shown as plain text, with its brackets.
    for text in doctree.findall(nodes.Text):
        if "](" in text and not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.raw)):
            logging.getLogger(__name__).warning("no link: %s", text, location=text.parent)


def setup(app):
    app.connect("doctree-resolved", well_formed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
