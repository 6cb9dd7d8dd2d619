"""A network counted: what it is made of, what it carries and costs, what one failure takes."""
