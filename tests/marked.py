"""Read the marked parts of pages, which tests compare with the code.

`<!-- names: NAME -->` ... `<!-- /names -->` holds a list, table, example or picture;
`<!-- value: NAME -->1.4<!-- /value -->` one number of a sentence.
"""

import re


def marked(page, name):
    """Return the text between the markers `names: NAME` of a page."""
    found = re.findall(rf"<!-- names: {name} -->(.*?)<!-- /names -->", page, re.DOTALL)
    assert found, f"no marker <!-- names: {name} --> ... <!-- /names -->"
    return "\n".join(found)


def cells(page, name):
    """Return the rows of the marked tables, without their heads, as lists of cells."""
    rows = re.findall(r"^\| (.*) \|$", marked(page, name), re.MULTILINE)
    return [row.split(" | ") for row in rows[1:] if not row.startswith("---")]


def values(page):
    """Return the marked values of a page by their names."""
    found = re.findall(r"<!-- value: ([\w-]+) -->(.*?)<!-- /value -->", page, re.DOTALL)
    assert len(found) == len(dict(found)), "a value is marked twice"
    return {name: " ".join(text.split()) for name, text in found}


def blocks(page, language):
    """Return a page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
